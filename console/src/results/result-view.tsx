/** One result: a summary, ways to copy and download it, and its rows. */
import './result-view.css';
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { ChartView } from '../chart/chart-view.js';
import { type ChartState, valueColumns } from '../chart/choice.js';
import { Icon } from '../parts/icon.js';
import { count, counted } from '../parts/formats.js';
import type { RunRequest } from '../sql/run.js';
import { AS_RETURNED, arranged, type Arrangement, conditionFault } from './arrange.js';
import type { OwnWidths } from './column-widths.js';
import { ConditionBar } from './condition-bar.js';
import { nextSort, type Sort } from './conditions.js';
import { CopyMenu } from './copy-menu.js';
import { Download } from './download-menu.js';
import { ResultRows } from './result-rows.js';
import type { HeldRows, Result } from './result.js';
import { type Selection, START, topOf } from './selection.js';

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
  const arrangement = useSignal<Arrangement>(AS_RETURNED);
  const hasFilter = useSignal(false);
  const isEnded = result.isEnded.value;
  const { sort, conditions } = arrangement.value;
  const rows = useMemo(
    () => arranged(result, arrangement.value),
    [result, arrangement.value, isEnded, result.isReleased.value],
  );
  const canChart = result.held > 0 && valueColumns(result).length > 0;
  const isChart = canChart && chart?.isShown === true;
  const canArrange = isEnded && result.held > 0;

  if (result.columns.length === 0) return <NoRows result={result} />;

  const arrange = (change: Partial<Arrangement>) => {
    arrangement.value = { ...arrangement.value, ...change };
    selection.value = topOf(selection.value);
  };

  return (
    <section class="result" aria-label="Result">
      <header class="result-bar">
        {lead}
        <RowCount result={result} />
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
          {canArrange && !isChart && (
            <button
              type="button"
              class="button"
              aria-expanded={hasFilter.value}
              onClick={() => (hasFilter.value = !hasFilter.value)}
            >
              <Icon name="search" />
              Filter
            </button>
          )}
          {result.held > 0 && !isChart && <CopyMenu result={rows} selection={selection.value} />}
          {question !== null && isRepeatable(result) && <Download question={question} />}
        </div>
      </header>
      {!isChart && (hasFilter.value || conditions.length > 0) && (
        <ConditionBar
          columns={result.columns}
          conditions={conditions}
          onChange={(changed) => arrange({ conditions: changed })}
          faultOf={conditionFault}
        />
      )}
      {!isChart && (sort !== null || conditions.length > 0) && <Arranged result={result} rows={rows} sort={sort} />}
      {isChart ? (
        <div class="result-rows">
          <ChartView
            result={result}
            kept={chart?.choice ?? null}
            onChoose={(choice) => onSettings({ chart: { choice, isShown: true } })}
          />
        </div>
      ) : (
        <ResultRows
          result={rows}
          selection={selection}
          own={widths}
          onResize={(own) => onSettings({ widths: own })}
          sort={sort}
          onSort={canArrange ? ({ name }) => arrange({ sort: nextSort(sort, name) }) : undefined}
        />
      )}
    </section>
  );
}

const NO_WIDTHS: OwnWidths = new Map();

function RowCount({ result }: { result: Result }) {
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

/** Says that the order and the choice are of the browser, and of how many rows. */
function Arranged({ result, rows, sort }: { result: Result; rows: HeldRows; sort: Sort | null }) {
  const isCut = result.isTruncated.value || result.rowCount.value > result.held;
  return (
    <p class="result-arranged quiet" role="status">
      {counted(rows.held, 'row')} of the {count(result.held)} held here
      {sort !== null && `, by ${sort.column}${sort.isDescending ? ', descending' : ''}`}
      {isCut && '. The query returned more: sort and filter in SQL to see all of them'}
      {!isCut && !result.isComplete.value && '. The statement ended before its last row'}.
    </p>
  );
}

/** A file needs a second run, which must only read. */
const isRepeatable = (result: Result): boolean =>
  result.isComplete.value && /^(SELECT|SHOW|EXPLAIN|VALUES|TABLE|WITH|FETCH)/.test(result.type.value);
