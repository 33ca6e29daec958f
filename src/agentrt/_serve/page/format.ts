// Numbers and times for people.

export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  const rest = String(whole % 60).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1000).toFixed(bytes < 1e4 ? 1 : 0)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function count(count: number): string {
  if (count < 1000) return String(count);
  if (count < 1e6) return `${(count / 1000).toFixed(count < 1e5 ? 1 : 0)}K`;
  return `${(count / 1e6).toFixed(1)}M`;
}

export function money(cost: number, currency?: string | null): string {
  const sign = !currency || currency === "USD" ? "$" : `${currency} `;
  return `${sign}${cost.toFixed(cost && cost < 0.1 ? 4 : 2)}`;
}

/** The time of day, or the day if it is another one */
export function moment(seconds: number): string {
  const then = new Date(seconds * 1000);
  return then.toDateString() === new Date().toDateString()
    ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : then.toLocaleDateString([], { day: "numeric", month: "short" });
}

/** How much of a limit of the account is used, and when it begins anew */
export function limitWords({ name, used_percent, resets_at, reached }: w.LimitWindow): string {
  const used = reached ? "reached" : used_percent != null ? `${Math.round(used_percent)}%` : "";
  const reset = resets_at != null && `resets ${moment(resets_at)}`;
  return [`${name.replaceAll("_", " ")} limit`, used, reset].filter(Boolean).join(" ");
}

export function day(seconds: number): string {
  const then = new Date(seconds * 1000);
  const yesterday = new Date();
  if (then.toDateString() === yesterday.toDateString()) return "Today";
  yesterday.setDate(yesterday.getDate() - 1);
  if (then.toDateString() === yesterday.toDateString()) return "Yesterday";
  return then.toLocaleDateString([], { day: "numeric", month: "long", year: "numeric" });
}

/** The last part of a path */
export function baseName(path: string): string {
  return path.split("/").filter(Boolean).pop() || path;
}

/** A path as seen from a folder, if it is in it */
export function within(path: string, folder: string): string {
  const start = folder.endsWith("/") ? folder : `${folder}/`;
  return path.startsWith(start) ? path.slice(start.length) : path;
}

/** Without the percent signs of a URI */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What the file of a URI is called */
export const fileName = (uri: string): string => decoded(baseName(uri).split(":").pop() || uri);

/** What a file's name says of its language */
export function ending(path: string): string {
  const name = path.split("/").pop() ?? "";
  return name.includes(".") ? (name.split(".").pop() ?? "") : name;
}

/** The progress or the report of work in the background, and what it has used. */
export const factsOf = ({ detail, usage }: w.Task): string[] => {
  const used = usage?.total_tokens;
  return [detail ?? "", used == null ? "" : `${count(used)} tokens`].filter(Boolean);
};
