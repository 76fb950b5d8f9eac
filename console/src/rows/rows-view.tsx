/** The rows of a table, page by page: filtered, sorted, and with the statement that reads them. */
import './rows.css';
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { CdpError, type Table } from '../../../src/client/index.js';
import { Alert } from '../parts/announcements.js';
import { count, counted, duration } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { explain, useLoaded } from '../parts/loaded.js';
import type { OwnWidths } from '../results/column-widths.js';
import { ConditionBar } from '../results/condition-bar.js';
import { nextSort } from '../results/conditions.js';
import { CopyMenu } from '../results/copy-menu.js';
import { Download } from '../results/download-menu.js';
import { ResultRows } from '../results/result-rows.js';
import { type Selection, START, topOf } from '../results/selection.js';
import { goTo, linkToQuery, routeQuery } from '../route.js';
import { currentSession } from '../session.js';
import { loadTabs, openTab } from '../sql/tabs.js';
import { type Choice, choiceIn, withChoice } from './choice.js';
import { type Page, readPage, sizeOf } from './page.js';
import { keyOf, LARGE, missingFor, readShape, type Shape } from './shape.js';
import { type Cursor, pageStatements, type RowsQuery, wholeStatement } from './statement.js';

export function RowsView({ table }: { table: Table }) {
  const { value: shape, error } = useLoaded(() => readShape(table.name), JSON.stringify(table));
  if (error !== '') return <Alert>{error}</Alert>;
  if (shape === undefined || table.columns.length === 0) return <div class="rows" aria-busy="true" />;
  return <Rows table={table} shape={shape} />;
}

function Rows({ table, shape }: { table: Table; shape: Shape }) {
  const { sort, conditions, misfits } = choiceIn(routeQuery.value, table.columns);
  const choice = JSON.stringify([sort, conditions]);
  const query = useMemo((): RowsQuery => {
    const columns = table.columns.filter(({ name }) => shape.readable.has(name));
    return { table: table.name, columns, isAll: shape.isWhole, key: keyOf(shape), conditions, sort };
  }, [table, shape, choice]);
  const missing = useMemo(() => missingFor(query, shape), [query, shape]);
  /** Where each page up to the one that is shown begins. */
  const turned = useSignal({ choice, starts: FIRST });
  const starts = turned.value.choice === choice ? turned.value.starts : FIRST;
  const start = starts.at(-1) ?? null;
  const { page, error, isReading, stop, again } = usePage(query, start);
  const selection = useSignal<Selection>(START);
  const widths = useSignal<OwnWidths>(new Map());

  const turn = (next: readonly (Cursor | null)[]) => {
    turned.value = { choice, starts: next };
    selection.value = topOf(selection.value);
  };
  const choose = (change: Partial<Choice>) => {
    selection.value = topOf(selection.value);
    location.hash = withChoice(table.name, { sort, conditions, ...change });
  };
  const isLarge = (table.approximate_rows ?? 0) >= LARGE;
  const notes = isLarge || error?.isTimeout === true ? missing : [];

  return (
    <section class="rows" aria-label={`Rows of ${table.name}`} aria-busy={isReading}>
      <ConditionBar
        columns={query.columns}
        conditions={conditions}
        onChange={(changed) => choose({ conditions: changed })}
      />
      {misfits > 0 && (
        <p class="rows-note" role="alert">
          {counted(misfits, 'part')} of the address {misfits === 1 ? 'does' : 'do'} not fit the columns of this table,
          and {misfits === 1 ? 'was' : 'were'} left out.
        </p>
      )}
      {notes.map(({ text, create }) => (
        <p key={text} class="rows-note">
          {text} {create !== null && <a href={linkToQuery(create, `Index of ${table.name}`)}>Create it in SQL</a>}
        </p>
      ))}
      <div class="rows-bar">
        <p role="status">
          {isReading
            ? 'Reading …'
            : page === null
              ? ''
              : inWords(page, (starts.length - 1) * sizeOf(query), table, query)}
        </p>
        {isReading && (
          <button type="button" class="button is-danger" onClick={stop}>
            <Icon name="stop" />
            Stop
          </button>
        )}
        {query.key !== null && (
          <div class="rows-pages" role="group" aria-label="Pages">
            <PageButton isOff={starts.length === 1} onClick={() => turn(FIRST)}>
              First
            </PageButton>
            <PageButton isOff={starts.length === 1} onClick={() => turn(starts.slice(0, -1))}>
              Previous
            </PageButton>
            <PageButton
              isOff={isReading || page === null || page.next === null}
              onClick={() => turn([...starts, page?.next ?? null])}
            >
              Next
            </PageButton>
          </div>
        )}
        <div class="result-actions">
          {page !== null && page.result.held > 0 && <CopyMenu result={page.result} selection={selection.value} />}
          <Download question={{ ...wholeStatement(query), readOnly: true, offset: 0 }} name={fileName(table.name)} />
          <button type="button" class="button" onClick={() => openInSql(query, start)}>
            Open in SQL
          </button>
        </div>
      </div>
      {error !== null && (
        <div class="outcome-error" role="alert">
          <p>{error.text}</p>
          <p>
            <button type="button" class="button" onClick={again}>
              Try again
            </button>
          </p>
        </div>
      )}
      {page !== null && (
        <ResultRows
          result={page.result}
          first={(starts.length - 1) * sizeOf(query) + 1}
          selection={selection}
          own={widths.value}
          onResize={(own) => (widths.value = own)}
          sort={sort}
          onSort={({ name }) => choose({ sort: nextSort(sort, name) })}
          isBeside
        />
      )}
    </section>
  );
}

const FIRST: readonly (Cursor | null)[] = [null];

/** It keeps the focus when there is no such page, so that the next key is not lost. */
const PageButton = ({ isOff, onClick, children }: { isOff: boolean; onClick: () => void; children: string }) => (
  <button type="button" class="button" aria-disabled={isOff} onClick={() => !isOff && onClick()}>
    {children}
  </button>
);

/** @param before the rows of the pages before */
function inWords({ result, isMore, ms }: Page, before: number, table: Table, query: RowsQuery): string {
  const { held } = result;
  const { approximate_rows: about } = table;
  const isWhole = query.conditions.length === 0 && about !== null && isMore;
  const range = held === 0 ? 'No rows' : `Rows ${count(before + 1)} to ${count(before + held)}`;
  const of = isWhole && about > before + held ? ` of about ${count(about)}` : '';
  const end =
    isMore && query.key === null
      ? `. There are more, but no unique key to page by: filter${query.sort === null ? ' or sort' : ''} to see others`
      : '';
  return `${range}${of} · ${duration(ms)}${end}`;
}

/** With the values of its parameters. */
function openInSql(query: RowsQuery, start: Cursor | null): void {
  const [statement] = pageStatements(query, start, sizeOf(query));
  if (statement === undefined) return;
  goTo('sql');
  void loadTabs().then(() => openTab(`${statement.text};`, query.table, { params: statement.params }));
}

const fileName = (table: string): string => table.replace(/[^\p{L}\p{N}_.-]+/gu, '_');

interface PageError {
  readonly text: string;
  readonly isTimeout: boolean;
}

/** Reads the page, and again when the query, its start or the attempt changes. */
function usePage(query: RowsQuery, start: Cursor | null) {
  const page = useSignal<Page | null>(null);
  const error = useSignal<PageError | null>(null);
  const isReading = useSignal(true);
  const attempt = useSignal(0);
  const abort = useRef(new AbortController());

  const show = (next: Page | null, why: PageError | null) => {
    page.value?.result.release();
    page.value = next;
    error.value = why;
    isReading.value = false;
  };

  useEffect(() => {
    const { signal } = (abort.current = new AbortController());
    isReading.value = true;
    error.value = null;
    readPage(query, start, AbortSignal.any([signal, currentSession().left])).then(
      (read) => (signal.aborted ? read.result.release() : show(read, null)),
      (thrown: unknown) => {
        const isTimeout = thrown instanceof CdpError && thrown.code === 'query_timeout';
        if (!signal.aborted) show(null, { text: explain(thrown), isTimeout });
      },
    );
    return () => abort.current.abort();
  }, [query, JSON.stringify(start), attempt.value]);
  useEffect(() => () => page.value?.result.release(), []);

  return {
    page: page.value,
    error: error.value,
    isReading: isReading.value,
    stop: () => {
      abort.current.abort();
      show(null, { text: 'Stopped; the statement was canceled.', isTimeout: false });
    },
    again: () => void attempt.value++,
  };
}
