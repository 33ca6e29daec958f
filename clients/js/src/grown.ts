// A map that grows at its front: pages of older entries are added to it, each at the cost of its own
// size. The entries of all pages are in one list, the newest first, which the maps share. A map sees
// as many of them as there were when it was made.

/** A copy of a map, which may be changed. */
export type MapCopy<V> = Map<string, V> | GrownMap<V>;

/** Return a copy of a map that may be changed. */
export const copied = <V>(map: ReadonlyMap<string, V>): MapCopy<V> =>
  map instanceof GrownMap ? map.copy() : new Map(map);

type Entry<V> = readonly [string, V];

/** The entries of the pages, the newest first, and the place of each. Entries are only added. */
interface Older<V> {
  readonly entries: Entry<V>[];
  readonly places: Map<string, number>;
}

/** A map with pages. It is immutable, except for a copy that was made to be changed. */
export class GrownMap<V> implements ReadonlyMap<string, V> {
  /** Entries before the pages. */
  readonly #first: Map<string, V>;
  readonly #older: Older<V>;
  /** The number of entries of `#older` that this map has. */
  readonly #count: number;
  /** Values that have replaced those in `#older`. */
  readonly #changed: Map<string, V>;
  /** Entries after the pages. */
  readonly #last: Map<string, V>;

  private constructor(
    first: Map<string, V>, older: Older<V>, count: number, changed: Map<string, V>, last: Map<string, V>,
  ) {
    this.#first = first;
    this.#older = older;
    this.#count = count;
    this.#changed = changed;
    this.#last = last;
  }

  /** Return the entries of a map as one to which pages can be added before the entry `place`. */
  static before<V>(map: ReadonlyMap<string, V>, place: string): GrownMap<V> | null {
    if (map instanceof GrownMap && map.#begins(place)) return map;
    const first = new Map<string, V>();
    const last = new Map<string, V>();
    for (const [key, value] of map) (key === place || last.size ? last : first).set(key, value);
    return last.size ? new GrownMap(first, { entries: [], places: new Map() }, 0, new Map(), last) : null;
  }

  /** Return true if the entries from `place` on are those after `#first`. */
  #begins(place: string): boolean {
    const oldest = this.#older.entries[this.#count - 1]?.[0] ?? this.#last.keys().next().value;
    return oldest === place;
  }

  /** Return the map with a page, or null if entries of the page are in the wrong place of this map. */
  with(page: readonly Entry<V>[]): GrownMap<V> | null {
    if (page.some(([key]) => this.#last.has(key) || this.#isOlder(key))) return null;
    const first = new Map(this.#first);
    const older = this.#ownOlder();
    for (let place = page.length - 1; place >= 0; place--) {
      const [key, value] = page[place]!;
      const known = first.get(key);
      first.delete(key);
      older.places.set(key, older.entries.length);
      older.entries.push([key, known ?? value]);
    }
    return new GrownMap(first, older, older.entries.length, this.#changed, this.#last);
  }

  /** Return `#older` if no other map has added to it, otherwise a copy. */
  #ownOlder(): Older<V> {
    if (this.#older.entries.length === this.#count) return this.#older;
    const entries = this.#older.entries.slice(0, this.#count);
    return { entries, places: new Map(entries.map(([key], place) => [key, place])) };
  }

  #isOlder(key: string): boolean {
    return (this.#older.places.get(key) ?? this.#count) < this.#count;
  }

  /** Return a copy that may be changed with `set`. It costs nothing for the entries of pages. */
  copy(): GrownMap<V> {
    const [first, changed, last] = [new Map(this.#first), new Map(this.#changed), new Map(this.#last)];
    return new GrownMap(first, this.#older, this.#count, changed, last);
  }

  /** Replace an entry, or add one at the end. */
  set(key: string, value: V): void {
    if (this.#isOlder(key)) this.#changed.set(key, value);
    else if (this.#first.has(key)) this.#first.set(key, value);
    else this.#last.set(key, value);
  }

  get(key: string): V | undefined {
    if (!this.#isOlder(key)) return this.#last.get(key) ?? this.#first.get(key);
    return this.#changed.get(key) ?? this.#older.entries[this.#older.places.get(key)!]![1];
  }

  has(key: string): boolean {
    return this.#last.has(key) || this.#isOlder(key) || this.#first.has(key);
  }

  get size(): number {
    return this.#first.size + this.#count + this.#last.size;
  }

  *entries(): MapIterator<[string, V]> {
    yield* this.#first;
    for (let place = this.#count - 1; place >= 0; place--) {
      const [key, value] = this.#older.entries[place]!;
      yield [key, this.#changed.get(key) ?? value];
    }
    yield* this.#last;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  *keys(): MapIterator<string> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
  }

  forEach(callback: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this.entries()) callback(value, key, this);
  }
}
