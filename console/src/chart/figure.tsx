/** The drawing. The pointer and the arrow keys move from value to value; for screen readers it is a slider. */
import type { Signal } from '@preact/signals';
import type { Ref } from 'preact';
import type { ChartKind } from './choice.js';
import type { Drawing, Spot } from './drawing.js';

interface FigureProps {
  readonly drawing: Drawing;
  readonly kind: ChartKind;
  readonly title: string;
  readonly svg: Ref<SVGSVGElement>;
  /** The index of the selected spot; -1: none. */
  readonly chosen: Signal<number>;
  /** The text of its value. */
  readonly value: string | undefined;
}

export function Figure({ drawing, kind, title, svg, chosen, value }: FigureProps) {
  const { spots, width, height } = drawing;
  const spot = spots[chosen.value];

  const takeKey = (event: KeyboardEvent) => {
    const next = moved(spots, chosen.value, event.key);
    if (next === undefined) return;
    chosen.value = next;
    event.preventDefault();
  };
  const point = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    chosen.value = nearest(spots, event.clientX - left, event.clientY - top);
  };

  return (
    <div
      class="chart-figure"
      role="slider"
      tabIndex={0}
      aria-label={title}
      aria-valuemin={1}
      aria-valuemax={Math.max(1, spots.length)}
      aria-valuenow={Math.max(1, chosen.value + 1)}
      aria-valuetext={value ?? 'Arrow keys go from value to value'}
      onKeyDown={takeKey}
      onPointerMove={point}
      onPointerDown={point}
    >
      <svg ref={svg} width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
        <rect width={width} height={height} fill="var(--page)" />
        <path d={drawing.grid} stroke="var(--line)" fill="none" />
        {drawing.strokes.map(({ d, series }) => (
          <path
            key={series}
            data-series={series}
            d={d}
            fill={kind === 'bar' ? colorOf(series) : 'none'}
            stroke={kind === 'bar' ? 'none' : colorOf(series)}
            stroke-width={kind === 'point' ? 6 : 2}
            stroke-opacity={kind === 'point' ? 0.75 : 1}
            stroke-linecap="round"
            stroke-linejoin="round"
          />
        ))}
        <path d={drawing.base} stroke="var(--line-strong)" fill="none" />
        {drawing.legend.map(({ x, y, series }) => (
          <rect key={series} x={x - 18} y={y - 10} width={12} height={12} rx={2} fill={colorOf(series)} />
        ))}
        {[...drawing.texts, ...drawing.legend].map(({ text, x, y, anchor, isTilted }, i) => (
          <text
            key={i}
            x={x}
            y={y}
            text-anchor={anchor}
            transform={isTilted ? `rotate(-45 ${x} ${y})` : undefined}
            fill="var(--quiet)"
            font-family="system-ui, sans-serif"
            font-size="12"
          >
            {text}
          </text>
        ))}
        {spot !== undefined && (
          <circle cx={spot.x} cy={spot.y} r={6} fill="none" stroke="var(--text)" stroke-width={2} data-pointer="" />
        )}
      </svg>
    </div>
  );
}

const colorOf = (series: number): string => `var(--series-${series + 1})`;

/** Left and right move along a series, up and down to another series. */
function moved(spots: readonly Spot[], from: number, key: string): number | undefined {
  const last = spots.length - 1;
  const at = spots[from];
  switch (key) {
    case 'ArrowRight':
      return Math.min(from + 1, last);
    case 'ArrowLeft':
      return Math.min(Math.max(from - 1, 0), last);
    case 'PageUp':
    case 'PageDown':
      return Math.max(0, Math.min(from + (key === 'PageUp' ? 10 : -10), last));
    case 'Home':
      return Math.min(0, last);
    case 'End':
      return last;
    case 'ArrowUp':
    case 'ArrowDown': {
      if (at === undefined) return Math.min(0, last);
      const beside = at.series + (key === 'ArrowDown' ? 1 : -1);
      const others = spots.flatMap((spot, i) => (spot.series === beside ? [{ spot, i }] : []));
      const distance = ({ spot }: { spot: Spot }) => Math.abs(spot.mark.x - at.mark.x);
      return others.reduce(
        (best, other) => (distance(other) < distance(best) ? other : best),
        others[0] ?? { spot: at, i: from },
      ).i;
    }
    default:
      return undefined;
  }
}

function nearest(spots: readonly Spot[], x: number, y: number): number {
  let [best, least] = [-1, Infinity];
  for (const [i, spot] of spots.entries()) {
    // The vertical distance counts less: people point at a time or a category.
    const distance = Math.hypot(spot.x - x, (spot.y - y) / 4);
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}
