/** A small chart of the last minutes: its name, its last value, and a line. */
interface SparklineProps {
  label: string;
  /** The oldest first; null: unknown at that time. */
  values: readonly (number | null)[];
  /** How long before the last value each was taken; of more than there are values, the last ones count. */
  ages: readonly number[];
  /** The age at the left edge. */
  room: number;
  format: (value: number) => string;
  /** Explains the value. */
  hint: string;
}

const [WIDTH, HEIGHT] = [300, 56];

/** Values further apart are not connected: the screen was left in between. */
const GAP = 5;

export function Sparkline({ label, values, ages, room, format, hint }: SparklineProps) {
  const known = values.filter((value) => value !== null);
  const last = known.at(-1);
  const top = Math.max(...known, Number.MIN_VALUE);
  const age = (i: number) => ages[ages.length - values.length + i] ?? 0;
  const x = (i: number) => (1 - age(i) / room) * WIDTH;
  const y = (value: number) => HEIGHT - 2 - (value / top) * (HEIGHT - 6);
  let line = '';
  values.forEach((value, i) => {
    if (value === null) return;
    const isStart = i === 0 || values[i - 1] === null || age(i - 1) - age(i) > GAP;
    line += `${isStart ? 'M' : 'L'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  const highest = known.length === 0 ? '' : `, at most ${format(Math.max(...known))} in this time`;
  return (
    <figure class="sparkline">
      <figcaption>
        <span>{label}</span>
        <strong>{last === undefined ? '–' : format(last)}</strong>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: ${last === undefined ? 'not known yet' : format(last)}${highest}`}
      >
        <path class="sparkline-base" d={`M0 ${HEIGHT - 1.5}H${WIDTH}`} />
        <path class="sparkline-line" d={line} />
      </svg>
      <p class="quiet">{hint}</p>
    </figure>
  );
}
