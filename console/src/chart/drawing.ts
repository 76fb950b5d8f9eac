/** Converts a plot to paths and texts for a given size: few elements, even for many marks. */
import { extent } from 'd3-array';
import type { ChartKind } from './choice.js';
import { type Axis, numberAxis, timeAxis } from './axes.js';
import type { Mark, Plot } from './plot.js';

export interface Text {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly anchor: 'start' | 'middle' | 'end';
  /** Rotated, so that neighboring labels do not overlap. */
  readonly isTilted?: boolean;
}

export interface Stroke {
  readonly d: string;
  readonly series: number;
}

/** A mark that the user can select. */
export interface Spot {
  readonly x: number;
  readonly y: number;
  readonly series: number;
  readonly mark: Mark;
}

export interface Drawing {
  readonly width: number;
  readonly height: number;
  readonly grid: string;
  readonly base: string;
  readonly texts: readonly Text[];
  /** Names of the series, each after a swatch of its color; empty for a single series. */
  readonly legend: readonly (Text & { readonly series: number })[];
  readonly strokes: readonly Stroke[];
  readonly spots: readonly Spot[];
}

interface Labels {
  readonly x: string;
  readonly y: string;
}

/** @param measure returns the width of a text in pixels */
export function drawingOf(
  plot: Plot,
  kind: ChartKind,
  labels: Labels,
  { width, height }: { width: number; height: number },
  measure: (text: string) => number,
): Drawing {
  const legend = plot.series.length > 1 ? legendOf(plot, width, measure) : [];
  const top = (legend.at(-1)?.y ?? 0) + 36;
  const y = axisOfValues(plot, kind, Math.max(40, height - top - 56));
  const left = Math.ceil(Math.max(24, ...y.ticks.map(({ label }) => measure(label))) + 24);
  const inner = Math.max(40, width - left - 24);
  const x = axisOfPlaces(plot, kind, inner, measure);
  const tilt = x.isTilted ? Math.min(TILTED, Math.max(...x.axis.ticks.map(({ label }) => measure(label)))) * 0.71 : 0;
  const room = Math.max(40, height - top - 56 - tilt);
  const values = tilt > 0 ? axisOfValues(plot, kind, room) : y;
  const bottom = top + room;
  const placeX = (value: number) => left + x.axis.at(value);
  const placeY = (value: number) => bottom - values.at(value);

  const spots = plot.series.flatMap(({ marks }, series) =>
    marks
      .filter((mark) => !Number.isNaN(mark.y))
      .map((mark) => ({ x: placeX(mark.x) + x.offset(series), y: placeY(mark.y), series, mark })),
  );
  const zero = placeY(0);
  const strokes = plot.series.map(({ marks }, series) => ({
    series,
    d:
      kind === 'bar'
        ? bars(
            spots.filter((spot) => spot.series === series),
            zero,
            x.barWidth,
          )
        : kind === 'line'
          ? lines(marks, placeX, placeY)
          : dots(spots.filter((spot) => spot.series === series)),
  }));
  const base = kind === 'bar' ? zero : bottom;
  return {
    width,
    height,
    grid: values.ticks.map(({ value }) => `M${left} ${px(placeY(value))}H${left + inner}`).join(''),
    base: `M${left} ${px(base)}H${left + inner}`,
    legend,
    strokes,
    spots,
    texts: [
      { text: labels.y, x: 16, y: top - 16, anchor: 'start' },
      { text: labels.x, x: left + inner / 2, y: height - 10, anchor: 'middle' },
      ...values.ticks.map(({ value, label }): Text => ({
        text: label,
        x: left - 8,
        y: placeY(value) + 4,
        anchor: 'end',
      })),
      ...x.axis.ticks.map(({ value, label }): Text =>
        x.isTilted
          ? { text: cut(label, TILTED, measure), x: placeX(value) + 4, y: bottom + 14, anchor: 'end', isTilted: true }
          : { text: label, x: placeX(value), y: bottom + 18, anchor: 'middle' },
      ),
    ],
  };
}

const px = (n: number): string => n.toFixed(1);

/** Bars start at zero. */
function axisOfValues({ series }: Plot, kind: ChartKind, pixels: number): Axis {
  const values = series.flatMap(({ marks }) => marks.map(({ y }) => y).filter((y) => !Number.isNaN(y)));
  if (kind === 'bar' || values.length === 0) values.push(0);
  const [low = 0, high = 1] = extent(values);
  return numberAxis(low === high && kind === 'bar' ? [0, 1] : [low, high], pixels, 48, true);
}

interface Places {
  readonly axis: Axis;
  readonly isTilted: boolean;
  readonly barWidth: number;
  /** The offset of a series' bars from their position, in pixels. */
  readonly offset: (series: number) => number;
}

const WIDEST_BAR = 72;
const TILTED = 120;

function axisOfPlaces(plot: Plot, kind: ChartKind, pixels: number, measure: (text: string) => number): Places {
  const places = [...new Set(plot.series.flatMap(({ marks }) => marks.map(({ x }) => x)))].sort((a, b) => a - b);
  const isCategory = plot.scale === 'category';
  const gap = isCategory ? 1 : smallestGap(places);
  const [low = 0, high = 0] = isCategory ? [0, plot.categories.length - 1] : [places[0], places.at(-1)];
  // Half a step on both sides, for the first and the last bar.
  const margin = kind === 'bar' || isCategory ? gap / 2 : 0;
  const domain = [low - margin, high + margin] as const;
  const bare = plot.scale === 'time' ? timeAxis(domain, pixels, 88) : numberAxis(domain, pixels, 80, false);
  const step = Math.abs(bare.at(gap) - bare.at(0));
  const widest = Math.max(0, ...plot.categories.map(measure));
  const isTilted = isCategory && widest + 12 > step;
  const axis = isCategory ? { at: bare.at, ticks: categoryTicks(plot.categories, isTilted ? 16 : 0, step) } : bare;
  const groups = Math.max(1, plot.series.length);
  const barWidth = kind === 'bar' ? Math.max(1, Math.min(WIDEST_BAR, (step * 0.8) / groups)) : 0;
  return { axis, isTilted, barWidth, offset: (series) => (series - (groups - 1) / 2) * barWidth };
}

/** All categories, or as many as fit next to each other. */
function categoryTicks(categories: readonly string[], room: number, step: number): Axis['ticks'] {
  const each = Math.max(1, Math.ceil(room / step));
  return categories.map((label, value) => ({ label, value })).filter(({ value }) => value % each === 0);
}

function smallestGap(sorted: readonly number[]): number {
  let smallest = Infinity;
  for (let i = 1; i < sorted.length; i++) smallest = Math.min(smallest, (sorted[i] ?? 0) - (sorted[i - 1] ?? 0));
  return Number.isFinite(smallest) ? smallest : 1;
}

function lines(marks: readonly Mark[], x: (value: number) => number, y: (value: number) => number): string {
  let d = '';
  let isBroken = true;
  for (const mark of marks) {
    if (Number.isNaN(mark.y)) isBroken = true;
    else {
      // A zero-length line with round ends shows a value between two gaps.
      d += isBroken ? `M${px(x(mark.x))} ${px(y(mark.y))}h0` : `L${px(x(mark.x))} ${px(y(mark.y))}`;
      isBroken = false;
    }
  }
  return d;
}

const dots = (spots: readonly Spot[]): string => spots.map(({ x, y }) => `M${px(x)} ${px(y)}h0`).join('');

const bars = (spots: readonly Spot[], zero: number, width: number): string =>
  spots.map(({ x, y }) => `M${px(x - width / 2)} ${px(zero)}V${px(y)}h${px(width)}V${px(zero)}Z`).join('');

const LEGEND_LINE = 20;
const SWATCH = 18;

function legendOf({ series }: Plot, width: number, measure: (text: string) => number): Drawing['legend'] {
  let [x, y] = [16, 18];
  return series.map(({ name }, i) => {
    const text = cut(name, Math.min(240, width - 64), measure);
    const taken = SWATCH + measure(text) + 20;
    if (x > 16 && x + taken > width) [x, y] = [16, y + LEGEND_LINE];
    const entry = { text, x: x + SWATCH, y, anchor: 'start' as const, series: i };
    x += taken;
    return entry;
  });
}

/** Cuts a text to the width. */
function cut(text: string, pixels: number, measure: (text: string) => number): string {
  const short = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  if (measure(short) <= pixels) return short;
  let length = short.length;
  while (length > 1 && measure(`${short.slice(0, length)}…`) > pixels) length--;
  return `${short.slice(0, length)}…`;
}
