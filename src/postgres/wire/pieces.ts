/** From the parts of a write to what is handed to the socket. */

/** Parts of a write below this length are joined: to copy them costs less than to write a piece more. */
const LARGE_PART = 16 * 1024;

/** What lies between the large parts, in one piece each. */
export function joined(parts: readonly Uint8Array[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (let i = 0; i <= parts.length; i++) {
    const large = i < parts.length && (parts[i] as Uint8Array).length >= LARGE_PART;
    if (!large && i < parts.length) continue;
    if (i === from + 1) pieces.push(parts[from] as Uint8Array);
    else if (i > from) pieces.push(Buffer.concat(parts.slice(from, i)));
    if (large) pieces.push(parts[i] as Uint8Array);
    from = i + 1;
  }
  return pieces;
}
