/** A small chart of the last minutes: its name, its last value, and a line. */
interface SparklineProps {
  label: string;
  /** The oldest first; null: unknown at that time. */
  values: readonly (number | null)[];
  /** The number of values from left to right. */
  room: number;
  format: (value: number) => string;
  /** Explains the value. */
  hint: string;
}

const [WIDTH, HEIGHT] = [300, 56];

export function Sparkline({ label, values, room, format, hint }: SparklineProps) {
  const known = values.filter((value) => value !== null);
  const last = known.at(-1);
  const top = Math.max(...known, Number.MIN_VALUE);
  const x = (i: number) => ((room - values.length + i) / (room - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 2 - (value / top) * (HEIGHT - 6);
  let line = '';
  values.forEach((value, i) => {
    if (value === null) return;
    const isStart = i === 0 || values[i - 1] === null;
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
