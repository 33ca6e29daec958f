// Puts requests into the model of the page, one after the other, and returns what is not as it has to be:
// `[{ name, ask, item, texts }]` in, complaints out. `texts` are what has to be seen, each in two spellings.
async (requests) => {
  const { model, setModel, setUi, ui } = await import("/page/app.js");
  const complaints = [];
  // The guard against hasty answers is waited for in no time.
  const state = (window.agentrtTest ??= { ahead: 0, now: performance.now.bind(performance), count: 0 });
  performance.now = () => state.now() + state.ahead;
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const pass = async () => {
    state.ahead += 1000;
    setUi({});
    await frame();
    await frame();
  };
  const put = (ask, item) => {
    const session = ui().session;
    const seat = model().attached.get(session);
    const permissions = new Map(ask ? [[ask.request, ask]] : []);
    const items = new Map(item ? [[item.id, item]] : []);
    const attached = new Map(model().attached).set(session, { ...seat, view: { ...seat.view, permissions, items } });
    setModel((model) => ({ ...model, attached }));
  };
  const until = async (check) => {
    for (let tries = 0; tries < 200; tries++) {
      if (check()) return true;
      await frame();
    }
    return false;
  };
  const squeezed = (text) => text.normalize("NFC").replace(/\s+/g, "");

  /** The text in an element that can be seen, when it is scrolled to; and why some of it cannot be. */
  const readable = (root, scroller) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    let text = "";
    const hidden = [];
    const around = scroller.getBoundingClientRect();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!node.data.trim() || parent.closest(".number, .sign, kbd")) continue;
      text += node.data;
      const style = getComputedStyle(parent);
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
      const seen = parent.checkVisibility({ opacityProperty: true, visibilityProperty: true });
      const clear = style.color !== "rgba(0, 0, 0, 0)" && parseFloat(style.fontSize) >= 9;
      const inside = boxes.every((box) => box.left >= around.left - 1 && box.right <= around.right + 1);
      let clipped = "";
      for (let up = parent; up && up !== scroller; up = up.parentElement) {
        const { overflowX, overflowY, textOverflow, webkitLineClamp } = getComputedStyle(up);
        const cuts = overflowX !== "visible" || overflowY !== "visible";
        if (cuts && (up.scrollWidth > up.clientWidth + 1 || up.scrollHeight > up.clientHeight + 1)) clipped = up.className || up.tagName;
        if (webkitLineClamp !== "none" || (textOverflow !== "clip" && up.scrollWidth > up.clientWidth + 1)) clipped = `${up.tagName} …`;
      }
      const laidOut = boxes.length > 0 || parent.closest(".part, .block-of"); // out of sight now
      if (!seen || !clear || !inside || clipped || !laidOut) hidden.push(`${node.data.slice(0, 60)} (${[seen, clear, inside, clipped, laidOut && true]})`);
    }
    return { text, hidden };
  };

  for (const { name, ask, item, texts } of requests) {
    const complain = (what) => complaints.push(`${name}: ${what}`);
    const request = `${ask.request}-${++state.count}`;
    put({ ...ask, request }, item);
    if (!(await until(() => document.querySelector("[role=alertdialog]")))) {
      complain("is not shown");
      continue;
    }
    const sheet = document.querySelector("[role=alertdialog]");
    const subject = sheet.querySelector(".subject");
    const allows = () => [...sheet.querySelectorAll(".options button:not(.quiet, .reject_once, .reject_always)")];
    const possible = () => allows().some((button) => button.getAttribute("aria-disabled") !== "true");
    await frame();
    if (possible()) complain("can be allowed at once");
    await pass();
    await pass();
    // From its beginning to its end in steps; nothing may be allowed before the end was in sight.
    const scroller = [subject, sheet].find((each) => each.scrollHeight > each.clientHeight + 1) ?? subject;
    const end = sheet.querySelector(".mark-of.end");
    const endSeen = () => {
      const mark = end.getBoundingClientRect();
      const box = scroller.getBoundingClientRect();
      return mark.bottom <= Math.min(box.bottom, innerHeight) + 4; // the room below the letters of a line
    };
    let reached = endSeen();
    for (let step = 0; step < 2000 && !reached; step++) {
      if (possible()) {
        complain("can be allowed before its end was in sight");
        break;
      }
      const before = scroller.scrollTop;
      scroller.scrollTop += step < 3 ? scroller.clientHeight - 48 : scroller.scrollHeight / 3;
      await frame();
      reached = endSeen();
      if (scroller.scrollTop === before && !reached) await frame();
    }
    if (!reached) complain("has an end that cannot be reached");
    if (!(await until(() => (pass(), possible())))) complain("cannot be allowed at its end");
    const { text, hidden } = readable(subject, scroller);
    const answers = readable(sheet.querySelector(".options"), sheet);
    for (const each of [...hidden, ...answers.hidden]) complain(`cannot be seen: ${each}`);
    const all = squeezed(text) + "\n" + squeezed(answers.text);
    for (const [plain, quoted] of texts) {
      if (!all.includes(squeezed(plain)) && !all.includes(squeezed(quoted))) complain(`does not show ${JSON.stringify(plain.slice(0, 200))}`);
    }
    for (const button of allows()) {
      const box = button.getBoundingClientRect();
      if (box.width < 1 || box.left < 0 || box.right > innerWidth + 1) complain("has an answer out of sight");
    }
    put(null, null);
    await until(() => !document.querySelector("[role=alertdialog]"));
  }
  return complaints;
};
