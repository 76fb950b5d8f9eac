/** One result: a summary, ways to copy and download it, and its rows. */
import './result-view.css';
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { copyText } from '../parts/clipboard.js';
import { ChartView } from '../chart/chart-view.js';
import { type ChartState, valueColumns } from '../chart/choice.js';
import { Icon } from '../parts/icon.js';
import { Menu } from '../parts/menu.js';
import { count, counted, size } from '../parts/formats.js';
import { say } from '../parts/announcements.js';
import { currentSession } from '../session.js';
import type { RunRequest } from '../sql/run.js';
import { CellDialog, type ShownCell } from './cell-dialog.js';
import type { OwnWidths } from './column-widths.js';
import { type Rectangle, toJsonText, toMarkdown, toTsv } from './copy.js';
import { download, type DownloadFormat } from './download.js';
import { Grid } from './grid.js';
import type { Result } from './result.js';
import { rangeOf, type Selection, START } from './selection.js';

/** A tab's settings for its results. */
export interface ResultSettings {
  readonly chart?: ChartState | undefined;
  readonly widths?: OwnWidths | undefined;
}

interface ResultViewProps {
  readonly result: Result;
  /** The statement to run again for a file. */
  readonly question: RunRequest | null;
  /** Precedes the number of rows. */
  readonly lead: ComponentChildren;
  readonly settings: ResultSettings;
  readonly onSettings: (change: ResultSettings) => void;
}

export function ResultView({ result, question, lead, settings, onSettings }: ResultViewProps) {
  const { chart, widths = NO_WIDTHS } = settings;
  const selection = useSignal<Selection>(START);
  const shown = useSignal<ShownCell | null>(null);
  const canChart = result.held > 0 && valueColumns(result).length > 0;
  const isChart = canChart && chart?.isShown === true;

  if (result.columns.length === 0) return <NoRows result={result} />;

  const copy = (format: (rectangle: Rectangle) => string) => {
    const rectangle = chosen(result, selection.value, true);
    void copyText(format(rectangle), `${counted(rectangle.rows.length, 'row')} copied`);
  };
  const range = rangeOf(selection.value);
  const isOne = range.top === range.bottom && range.left === range.right;
  const what = isOne
    ? counted(result.held, 'row')
    : `${count(range.bottom - range.top + 1)} × ${count(range.right - range.left + 1)} cells`;

  return (
    <section class="result" aria-label="Result">
      <header class="result-bar">
        {lead}
        <HeldRows result={result} />
        {canChart && (
          <div class="segments" role="group" aria-label="Show the result as">
            {[false, true].map((isShown) => (
              <button
                key={String(isShown)}
                type="button"
                aria-pressed={isChart === isShown}
                onClick={() => onSettings({ chart: { choice: chart?.choice ?? null, isShown } })}
              >
                {isShown ? 'Chart' : 'Rows'}
              </button>
            ))}
          </div>
        )}
        <div class="result-actions">
          {result.held > 0 && !isChart && (
            <Menu
              label="Copy"
              items={[
                { label: 'TSV, for a spreadsheet', run: () => copy((all) => toTsv(all, true)) },
                { label: 'JSON', run: () => copy(toJsonText) },
                { label: 'Markdown table', run: () => copy(toMarkdown) },
              ]}
            >
              <Icon name="copy" />
              Copy <span class="wide-only">{what}</span>
            </Menu>
          )}
          {question !== null && isRepeatable(result) && <Download question={question} />}
        </div>
      </header>
      <div class="result-rows">
        {isChart ? (
          <ChartView
            result={result}
            kept={chart?.choice ?? null}
            onChoose={(choice) => onSettings({ chart: { choice, isShown: true } })}
          />
        ) : (
          <Grid
            result={result}
            selection={selection}
            own={widths}
            onResize={(own) => onSettings({ widths: own })}
            onOpen={({ row, column }) => {
              const described = result.columns[column];
              const cell = result.cells(row)[column];
              if (described !== undefined && cell !== undefined) shown.value = { column: described, cell };
            }}
            onCopy={() => toTsv(chosen(result, selection.value, false), !isOne)}
          />
        )}
        {result.rowCount.value === 0 && result.isComplete.value && <p class="result-none quiet">No row matches.</p>}
      </div>
      <CellDialog shown={shown.value} onClose={() => (shown.value = null)} />
    </section>
  );
}

const NO_WIDTHS: OwnWidths = new Map();

function HeldRows({ result }: { result: Result }) {
  const rows = result.rowCount.value;
  const isReleased = result.isReleased.value;
  const isMore = !isReleased && rows > result.held;
  return (
    <p class="result-count">
      <strong>{counted(rows, 'row')}</strong>
      {!result.isComplete.value && ' so far'}
      {isReleased && <span class="quiet"> · they were dropped for newer results: run it again to see them</span>}
      {isMore && <span class="quiet"> · the first {count(result.held)} are held here</span>}
      {result.isTruncated.value && (
        <span class="quiet"> · there are more: run this statement alone to see all of its rows</span>
      )}
    </p>
  );
}

function NoRows({ result }: { result: Result }) {
  const type = result.type.value;
  const isCounting = /^(INSERT|UPDATE|DELETE|MERGE|COPY|SELECT)/.test(type);
  return (
    <section class="result" aria-label="Result">
      <p class="result-done">
        {type === '' ? 'Running …' : type}
        {isCounting && <span class="quiet"> · {counted(result.rowCount.value, 'row')}</span>}
      </p>
    </section>
  );
}

/** @param orAll selects all held rows if the selection is a single cell */
function chosen(result: Result, selection: Selection, orAll: boolean): Rectangle {
  const range = rangeOf(selection);
  const isAll = orAll && range.top === range.bottom && range.left === range.right;
  const { top, bottom, left, right } = isAll
    ? { top: 0, bottom: result.held - 1, left: 0, right: result.columns.length - 1 }
    : range;
  const rows = [];
  for (let row = top; row <= Math.min(bottom, result.held - 1); row++) {
    rows.push(result.cells(row).slice(left, right + 1));
  }
  return { columns: result.columns.slice(left, right + 1), rows };
}

/** A file needs a second run, which must only read. */
const isRepeatable = (result: Result): boolean =>
  result.isComplete.value && /^(SELECT|SHOW|EXPLAIN|VALUES|TABLE|WITH|FETCH)/.test(result.type.value);

function Download({ question }: { question: RunRequest }) {
  const progress = useSignal<number | null>(null);
  const abort = useMemo(() => ({ current: new AbortController() }), []);
  const start = async (format: DownloadFormat) => {
    abort.current = new AbortController();
    progress.value = 0;
    const signal = AbortSignal.any([abort.current.signal, currentSession().left]);
    try {
      await download(question, format, 'result', signal, (bytes) => (progress.value = bytes));
      say('Downloaded');
    } catch (error) {
      const isOwn = signal.aborted || (error instanceof DOMException && error.name === 'AbortError');
      if (!isOwn) say(`The download failed: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      progress.value = null;
    }
  };
  if (progress.value !== null) {
    return (
      <button type="button" class="button" onClick={() => abort.current.abort()}>
        <Icon name="stop" />
        {size(progress.value)} · Stop
      </button>
    );
  }
  return (
    <Menu
      label="Download"
      items={[
        { label: 'CSV', hint: 'runs the query again', run: () => void start('csv') },
        { label: 'NDJSON', hint: 'runs the query again', run: () => void start('ndjson') },
        { label: 'Parquet', hint: 'runs the query twice', run: () => void start('parquet') },
      ]}
    >
      <Icon name="download" />
      Download all
    </Menu>
  );
}
