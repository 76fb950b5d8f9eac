/** A result as a chart. The user can change what it draws, read single values, and save it as a file. */
import './chart.css';
import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { Icon } from '../parts/icon.js';
import { Menu } from '../parts/menu.js';
import { counted } from '../parts/formats.js';
import { say } from '../parts/announcements.js';
import type { Result } from '../results/result.js';
import { type ChartChoice, choiceFor, labelOf } from './choice.js';
import { Controls } from './controls.js';
import { drawingOf, type Spot } from './drawing.js';
import { Figure } from './figure.js';
import { plotOf } from './plot.js';
import { saveChart } from './save-chart.js';

interface ChartViewProps {
  readonly result: Result;
  /** null: the suggested choice. */
  readonly kept: ChartChoice | null;
  readonly onChoose: (choice: ChartChoice) => void;
}

export function ChartView({ result, kept, onChoose }: ChartViewProps) {
  const place = useRef<HTMLDivElement>(null);
  const chosen = useSignal(-1);
  const svg = useRef<SVGSVGElement>(null);
  const room = useSignal({ width: 0, height: 0 });
  // Rows arrive in the thousands; those that a chart can draw arrive soon.
  const rows = result.rowCount.value;
  const choice = useMemo(() => choiceFor(result, kept), [result, rows, kept]);
  const plot = useMemo(() => plotOf(result, choice), [result, rows, choice]);
  const labels = { x: xLabel(result, choice), y: choice.y.length === 1 ? (choice.y[0] ?? '') : '' };
  const drawing = useMemo(() => drawingOf(plot, choice.kind, labels, room.value, measured), [plot, choice, room.value]);

  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    const observer = new ResizeObserver(([entry]) => {
      const { width = 0, height = 0 } = entry?.contentRect ?? {};
      room.value = { width: Math.floor(width), height: Math.floor(height) };
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => void (chosen.value = -1), [plot]);

  const spot = drawing.spots[chosen.value];
  const value = spot && described(result, choice, spot, plot.series[spot.series]?.y ?? '');
  const kind = { line: 'Line chart', bar: 'Bar chart', point: 'Point chart' }[choice.kind];
  const title = `${kind} of ${choice.y.join(', ')} by ${labels.x}, ${counted(drawing.spots.length, 'value')}`;
  const save = (format: 'svg' | 'png') => {
    if (svg.current === null) return;
    saveChart(svg.current, title, format).catch((error: unknown) => say(`The chart was not saved: ${String(error)}`));
  };

  return (
    <div class="chart">
      <div class="chart-bar">
        <Controls result={result} choice={choice} onChoose={onChoose} />
        <Menu
          label="Save the chart"
          items={[
            { label: 'PNG', hint: 'a picture', run: () => save('png') },
            { label: 'SVG', hint: 'lines and text', run: () => save('svg') },
          ]}
        >
          <Icon name="download" />
          Save chart
        </Menu>
      </div>
      <div class="chart-place" ref={place}>
        {room.value.width > 0 && (
          <Figure drawing={drawing} kind={choice.kind} title={title} svg={svg} chosen={chosen} value={value} />
        )}
      </div>
      <p class="chart-value mono">
        {value ?? <span class="quiet">Point at the chart, or use the arrow keys, to read a value.</span>}
      </p>
      {plot.notes.length > 0 && (
        <p class="chart-notes quiet" role="note">
          {plot.notes.join(' ')}
        </p>
      )}
    </div>
  );
}

function xLabel(result: Result, { x }: ChartChoice): string {
  if (x === null) return 'row';
  const type = result.columns.find(({ name }) => name === x)?.type ?? '';
  return /^(TIMESTAMP$|timestamp with time zone)/.test(type) ? `${x} (UTC)` : x;
}

let context: CanvasRenderingContext2D | null = null;

function measured(text: string): number {
  context ??= document.createElement('canvas').getContext('2d');
  if (context === null) return text.length * 7;
  context.font = '12px system-ui, sans-serif';
  return context.measureText(text).width;
}

/** The cells behind a mark, as they arrived; for several rows their sum. */
function described(result: Result, choice: ChartChoice, { mark }: Spot, y: string): string {
  const [row = 0] = mark.rows;
  const cells = result.cells(row);
  const textIn = (name: string) => {
    const at = result.columns.findIndex((column) => column.name === name);
    return `${name} ${labelOf(cells[at] ?? 'null', result.columns[at]?.type ?? '')}`;
  };
  return [
    choice.x === null ? `row ${row + 1}` : textIn(choice.x),
    ...(choice.series === null ? [] : [textIn(choice.series)]),
    mark.rows.length === 1 ? textIn(y) : `${y} ${Number(mark.y.toPrecision(15))}, the sum of ${mark.rows.length} rows`,
  ].join(' · ');
}
