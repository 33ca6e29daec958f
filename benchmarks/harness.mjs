// The workloads for hosts in Node: those of `harness.py`, with the same specification and the same
// line of JSON. What they are and what an adapter has to do is said there.
import fs from "node:fs";

const statusKb = (field) =>
  Number(fs.readFileSync("/proc/self/status", "utf8").match(new RegExp(`${field}:\\s+(\\d+)`))[1]);
const cpu = () => {
  const usage = process.resourceUsage();
  return (usage.userCPUTime + usage.systemCPUTime) / 1e6;
};
const now = () => Number(process.hrtime.bigint()); // ns of the clock that the agent uses
const seconds = (from, to = now()) => (to - from) / 1e9;
const sleep = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const percentiles = (ns) => {
  const ordered = [...ns].sort((a, b) => a - b);
  const at = (percent) => ordered[Math.floor((ordered.length * percent) / 100)] / 1e3;
  return { p50_us: at(50), p99_us: at(99) };
};
const children = () =>
  fs
    .readdirSync("/proc/self/task")
    .map((task) => fs.readFileSync(`/proc/self/task/${task}/children`, "utf8"))
    .join(" ")
    .split(" ")
    .filter(Boolean).length;

class Seen {
  n = 0;
  chars = 0;
  constructor(slow = 0) {
    this.slow = slow;
  }
  add(text) {
    this.n++;
    this.chars += text.length; // as in Python: the agent's words have no surrogate pairs
  }
  wait() {
    return sleep(this.slow);
  }
}

class Timed extends Seen {
  late = [];
  add(text) {
    this.late.push(Number(process.hrtime.bigint() - BigInt(text)));
  }
}

function finish(out) {
  fs.writeSync(1, `${JSON.stringify(out)}\n`);
  process.exit(0);
}

class Stalled extends Seen {
  constructor(slow, out) {
    super(slow);
    this.out = out;
    this.before = statusKb("VmRSS");
  }
  async wait() {
    await sleep(this.slow);
    finish({ ...this.out, growth_kb: statusKb("VmHWM") - this.before });
  }
}

export async function run(Adapter) {
  const spec = JSON.parse(process.argv[2]);
  const out = {};
  const open = async () => {
    const adapter = new Adapter();
    await adapter.open(spec.agent, spec.asks ?? "", spec.line ?? 0);
    return adapter;
  };
  const openAll = async (size = 20) => {
    const adapters = [];
    while (adapters.length < spec.sessions) {
      const some = Math.min(size, spec.sessions - adapters.length);
      adapters.push(...(await Promise.all(Array.from({ length: some }, open))));
    }
    return adapters;
  };

  const workloads = {
    async stream() {
      const adapter = await open();
      await adapter.turn("BENCH turn", new Seen());
      const seen = new Seen(spec.slow ?? 0);
      const before = statusKb("VmRSS");
      const cpu0 = cpu();
      const wall0 = now();
      await adapter.turn(spec.prompt, seen);
      Object.assign(out, {
        wall: seconds(wall0),
        cpu: cpu() - cpu0,
        n: seen.n,
        chars: seen.chars,
        growth_kb: statusKb("VmHWM") - before,
      });
      if (fs.existsSync(spec.file)) out.agent = JSON.parse(fs.readFileSync(spec.file, "utf8"));
      await adapter.close();
    },
    async trickle() {
      const adapter = await open();
      await adapter.turn("BENCH turn", new Seen());
      const seen = new Timed();
      const cpu0 = cpu();
      await adapter.turn(spec.prompt, seen);
      Object.assign(out, { cpu: cpu() - cpu0, n: seen.late.length, ...percentiles(seen.late) });
      await adapter.close();
    },
    async live() {
      const adapters = await openAll();
      const seen = new Timed();
      const cpu0 = cpu();
      await Promise.all(adapters.map((adapter) => adapter.turn(spec.prompt, seen)));
      Object.assign(out, { cpu: cpu() - cpu0, n: seen.late.length, ...percentiles(seen.late) });
      await Promise.all(adapters.map((adapter) => adapter.close()));
    },
    async concurrent() {
      const seen = new Seen();
      const memory = statusKb("VmRSS");
      const cpu0 = cpu();
      const wall0 = now();
      const adapters = await openAll();
      const grown = statusKb("VmRSS") - memory;
      const cpu1 = cpu();
      const wall1 = now();
      await Promise.all(adapters.map((adapter) => adapter.turn(spec.prompt, seen)));
      const cpu2 = cpu();
      const wall2 = now();
      await Promise.all(adapters.map((adapter) => adapter.close()));
      Object.assign(out, {
        start: seconds(wall0, wall1),
        start_cpu: cpu1 - cpu0,
        wall: seconds(wall1, wall2),
        cpu: cpu2 - cpu1,
        close: seconds(wall2),
        close_cpu: cpu() - cpu2,
        left: children(),
        chars: seen.chars,
        each_kb: grown / spec.sessions,
      });
    },
    async stall() {
      const adapter = await open();
      await adapter.turn("BENCH turn", new Seen());
      await adapter.turn(spec.prompt, new Stalled(spec.slow, out));
    },
    async turns() {
      const adapter = await open();
      const seen = new Seen();
      const latencies = [];
      for (let i = 0; i < 20; i++) await adapter.turn("BENCH turn", seen);
      const cpu0 = cpu();
      const wall0 = now();
      for (let i = 0; i < spec.n; i++) {
        const start = now();
        await adapter.turn("BENCH turn", seen);
        latencies.push(now() - start);
      }
      Object.assign(out, { wall: seconds(wall0), cpu: cpu() - cpu0, ...percentiles(latencies) });
      await adapter.close();
    },
    async cancel() {
      const heard = [];
      const over = [];
      for (let i = 0; i < spec.reps; i++) {
        const adapter = await open();
        await adapter.turn("BENCH turn", new Seen());
        let end;
        const turn = adapter
          .turn(`BENCH forever 250 ${spec.file}`, new Seen(spec.slow ?? 0))
          .then(() => (end = now()));
        await sleep(spec.after);
        const start = now();
        await adapter.cancel();
        await turn;
        const saw = JSON.parse(fs.readFileSync(spec.file, "utf8"));
        heard.push((saw.saw_cancel_ns - start) / 1e6);
        over.push((end - start) / 1e6);
        await adapter.close();
      }
      Object.assign(out, { heard_ms: median(heard), over_ms: median(over) });
      Object.assign(out, { worst_heard_ms: Math.max(...heard), worst_over_ms: Math.max(...over) });
    },
    async startup() {
      const adapter = await open();
      await adapter.turn(spec.prompt, new Seen());
      out.first_ns = Number(fs.readFileSync(spec.file, "utf8"));
      await adapter.close();
    },
  };

  const timeout = sleep(spec.timeout).then(() => {
    throw new Error("timeout");
  });
  try {
    await Promise.race([workloads[spec.workload](), timeout]);
  } catch (error) {
    out.error = `${error?.name}: ${error?.message ?? error}`.slice(0, 200); // is its result
  }
  finish(out);
}
