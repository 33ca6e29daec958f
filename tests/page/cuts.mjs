// Completes values as the page does: from {value, texts} on standard input, where `texts` are the
// complete texts by place.
const { cutsOf, fetched, filled, missing } = await import(`${process.env.PAGE}/cuts.js`);

const { value, texts, piece } = JSON.parse(await new Response(process.stdin).text());
let asked = 0;
const ask = async ({ at, start, count = piece }) => {
  asked += 1;
  const all = [...(texts[at] ?? "")];
  if (!(at in texts)) return { ok: false };
  const end = start + Math.min(piece, count);
  return { ok: true, text: all.slice(start, end).join(""), next: end < all.length ? end : null };
};
const got = await fetched(value, ask);
const whole = filled(value, got);
console.log(JSON.stringify({ whole, left: cutsOf(whole).length, missing: missing(value), asked }));
