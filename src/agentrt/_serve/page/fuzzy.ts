// Which of some paths somebody means who types a few of their letters.

/** Letters that are looked for one by one; what is longer is looked for as it is. */
const LETTERS = 64;

/** Those whose name has the letters in their order, the best first: names that begin with them, names
 *  whose last part does, those that contain them, then those that have them closest together. */
export const best = <T>(all: Iterable<T>, nameOf: (each: T) => string, letters: string): T[] => {
  const wanted = letters.toLowerCase();
  return [...all]
    .map((each) => ({ each, distance: distance(nameOf(each).toLowerCase(), wanted) }))
    .filter(({ distance }) => distance < Infinity)
    .sort((a, b) => a.distance - b.distance)
    .map(({ each }) => each);
};

export const bestMatches = (paths: Iterable<string>, letters: string) => best(paths, (path) => path, letters);

/** @returns Infinity: not all letters are in it */
function distance(path: string, wanted: string): number {
  if (path.startsWith(wanted)) return 0;
  if (path.slice(path.lastIndexOf("/") + 1).startsWith(wanted)) return 1;
  if (path.includes(wanted)) return 2;
  if (wanted.length > LETTERS) return Infinity;
  let end = 0;
  for (let at = 0; at < wanted.length; at++) {
    end = path.indexOf(wanted[at], end) + 1;
    if (!end) return Infinity;
  }
  let start = end; // back from the end of the first match: it may begin later
  for (let at = wanted.length - 1; at >= 0; at--) start = path.lastIndexOf(wanted[at], start - 1);
  return 3 + end - start;
}
