/**
 * Refused records: each wrong cell is red, shows its errors, and can be corrected in place. Only visible rows are
 * rendered.
 */
import './refused.css';
import { useSignal } from '@preact/signals';
import { useId, useMemo, useRef } from 'preact/hooks';
import { Icon } from '../parts/icon.js';
import { Menu } from '../parts/menu.js';
import { counted } from '../parts/formats.js';
import { offerFile } from '../results/download.js';
import { say } from '../parts/announcements.js';
import { HEADER, useVirtualGrid } from '../parts/virtual-grid.js';
import type { ImportJob } from './job.js';
import { RefusedCell, RefusedNote } from './refused-cell.js';
import type { RefusedRow } from './stored-journal.js';

const ROW = 60;
const NARROW = 184;
const WIDE = 240;
const LINE = 72;

/** @param version changes when the records do */
export function RefusedGrid({ job, version }: { job: ImportJob; version: number }) {
  const { journal, corrections } = job;
  const scroller = useRef<HTMLDivElement>(null);
  const id = useId();
  /** Errors found before sending, by the row's id. */
  const found = useSignal<ReadonlyMap<string, { column: string; message: string }>>(new Map());
  const rows = useMemo(
    () => [...journal.refused.values()].sort((a, b) => a.record.line - b.record.line),
    [job, version],
  );
  const columns = useMemo(() => corrections.columns(), [job, version]);
  const wrong = useMemo(() => wrongColumns(rows), [rows]);
  const widths = useMemo(() => columns.map(({ name }) => (wrong.has(name) ? WIDE : NARROW)), [columns, wrong]);
  const size = { rows: rows.length, rowHeight: ROW, widths, gutter: LINE };
  const { vertical, columns: shown, before, whole } = useVirtualGrid(scroller, size);

  const inputId = (row: RefusedRow | undefined, column: string) => `${id}-${row?.id}-${column}`;
  const goTo = (row: number, column: string) => {
    if (row < 0 || row >= rows.length) return;
    vertical.scrollToIndex(row);
    requestAnimationFrame(() => document.getElementById(inputId(rows[row], column))?.focus());
  };

  return (
    <section class="refused" aria-label="Refused records">
      <RefusedBar job={job} rows={rows} onFound={(all) => (found.value = all)} />
      <div
        ref={scroller}
        class="refused-rows"
        role="table"
        aria-label="Refused records"
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 1}
      >
        <div class="grid-all" role="rowgroup" style={whole}>
          <div class="grid-row grid-head" role="row" aria-rowindex={1} style={{ height: `${HEADER}px` }}>
            <div class="refused-line" role="columnheader" aria-colindex={1} style={{ width: `${LINE}px` }}>
              Line
            </div>
            <div role="presentation" class="grid-gap" style={{ width: `${before}px` }} />
            {shown.map(({ index, size }) => {
              const { name, type } = columns[index] ?? { name: '', type: null };
              return (
                <div
                  key={name}
                  class="refused-title"
                  role="columnheader"
                  aria-colindex={index + 2}
                  style={{ width: `${size}px` }}
                >
                  <span class="grid-name">{name}</span>
                  <span class="grid-type">{type ?? 'no such column'}</span>
                </div>
              );
            })}
          </div>
          {vertical.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            const own = found.value.get(row.id);
            return (
              <div
                key={row.id}
                class={row.errors.some(({ column }) => column === undefined) ? 'grid-row is-wrong' : 'grid-row'}
                role="row"
                aria-rowindex={index + 2}
                style={{ transform: `translateY(${start}px)`, height: `${ROW}px` }}
              >
                <div class="refused-line" role="rowheader" aria-colindex={1} style={{ width: `${LINE}px` }}>
                  {row.record.line}
                  <RefusedNote row={row} left={LINE} />
                </div>
                <div role="presentation" class="grid-gap" style={{ width: `${before}px` }} />
                {shown.map(({ index: at, size }) => {
                  const { name } = columns[at] ?? { name: '' };
                  return (
                    <RefusedCell
                      key={name}
                      id={inputId(row, name)}
                      corrections={corrections}
                      row={row}
                      column={name}
                      colIndex={at + 2}
                      width={size}
                      found={own?.column === name ? own.message : undefined}
                      onMove={(by) => goTo(index + by, name)}
                    />
                  );
                })}
              </div>
            );
          })}
        </div>
      </div>
    </section>
  );
}

const wrongColumns = (rows: readonly RefusedRow[]): Set<string | undefined> =>
  new Set(rows.flatMap(({ errors }) => errors.map(({ column }) => column)));

interface RefusedBarProps {
  readonly job: ImportJob;
  readonly rows: readonly RefusedRow[];
  readonly onFound: (found: ReadonlyMap<string, { column: string; message: string }>) => void;
}

function RefusedBar({ job, rows, onFound }: RefusedBarProps) {
  const { corrections, journal } = job;
  const changed = rows.filter(({ id }) => corrections.typed.value.has(id));
  const isBusy = job.isSending.value;

  const send = async (chosen: readonly RefusedRow[]) => {
    const found = new Map<string, { column: string; message: string }>();
    const ids = [];
    const records = [];
    for (const row of chosen) {
      const corrected = corrections.corrected(row);
      if ('record' in corrected) {
        ids.push(row.id);
        records.push(corrected.record);
      } else found.set(row.id, corrected);
    }
    onFound(found);
    const before = journal.stored;
    await job.sendAgain(ids, records);
    say(`${counted(journal.stored - before, 'row')} stored`);
  };
  const save = (text: string, ending: string, type: string) =>
    offerFile(new Blob([text], { type }), `${job.fileName}.refused.${ending}`);

  return (
    <header class="refused-bar">
      <h2>{counted(rows.length, 'refused record')}</h2>
      <div class="import-actions">
        <button
          type="button"
          class="button is-primary"
          disabled={changed.length === 0 || isBusy}
          onClick={() => void send(changed)}
        >
          {changed.length === 0 ? 'Send again' : `Send ${counted(changed.length, 'corrected record')}`}
        </button>
        <Menu
          label="More"
          items={[
            {
              label: 'Download as NDJSON',
              hint: 'with what is wrong; import it once corrected',
              run: () => save(corrections.toLines(rows), 'ndjson', 'application/x-ndjson'),
            },
            {
              label: 'Download as CSV',
              hint: 'with a column errors',
              run: () => save(corrections.toCsv(rows), 'csv', 'text/csv'),
            },
            {
              label: 'Send all again as they are',
              hint: 'after a change of the table',
              run: () => void send(rows.filter((row) => corrections.canSend(row))),
            },
            {
              label: `Discard ${counted(rows.length, 'record')}`,
              hint: 'they are not imported',
              run: () => void job.discard(rows.map(({ id }) => id)),
            },
          ]}
        >
          <Icon name="down" />
          More
        </Menu>
      </div>
    </header>
  );
}
