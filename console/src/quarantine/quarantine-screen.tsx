/** Records that an insert with `on_error=quarantine` refused and kept: what is wrong with each, another try, or the end of them. */
import '../operate/operate.css';
import '../results/result-view.css';
import './quarantine.css';
import { useSignal } from '@preact/signals';
import type { QuarantineAnswer, QuarantinedRecord } from '../../../src/contract/wire/quarantine.js';
import { send } from '../parts/api-request.js';
import { Dialog } from '../parts/dialog.js';
import { Filters, filtersIn, TextFilter, TimeFilters } from '../parts/filters.js';
import { usePages } from '../parts/pages.js';
import { dayAndTime } from '../parts/times.js';
import { oneLine } from '../results/cells.js';
import { JsonTree } from '../results/json-tree.js';
import { routeQuery } from '../route.js';
import { may } from '../session.js';
import { Drop } from './drop.js';
import { Replay } from './replay.js';

const FILTERS = ['table', 'error', 'column', 'since', 'until', 'id'] as const;

/** Which records an action is about: by the names of the API. */
export type Filter = Readonly<Partial<Record<(typeof FILTERS)[number], string>>>;

type Action = { readonly kind: 'replay' | 'drop'; readonly filter: Filter };

export function QuarantineScreen() {
  const query = routeQuery.value;
  const key = query.toString();
  const filter: Filter = Object.fromEntries(filtersIn(query, FILTERS));
  const { items, error, loadMore, reload } = usePages<QuarantinedRecord>(async (after) => {
    const asked = filtersIn(query, FILTERS);
    if (after !== null) asked.set('after', after);
    const path = `/api/cdp/quarantine?${asked}`;
    const { records, next } = await send<QuarantineAnswer>({ method: 'GET', path });
    return { items: records, next };
  }, key);
  const shown = useSignal<QuarantinedRecord | null>(null);
  const action = useSignal<Action | null>(null);
  const hasRecords = items !== null && items.length > 0;

  return (
    <main class="operate is-wide" aria-busy={items === null}>
      <header class="operate-head">
        <div>
          <h1>Quarantine</h1>
          <p class="quiet">Records that were refused and kept, the oldest first.</p>
        </div>
        {hasRecords && may('data:write') && (
          <div class="actions">
            <button type="button" class="button" onClick={() => (action.value = { kind: 'replay', filter })}>
              Try again …
            </button>
            <button type="button" class="button is-danger" onClick={() => (action.value = { kind: 'drop', filter })}>
              Drop …
            </button>
          </div>
        )}
      </header>
      <Filters key={key} screen="quarantine">
        <TextFilter name="table" label="Table" />
        <TextFilter name="error" label="Error code" />
        <TextFilter name="column" label="Column" />
        <TimeFilters />
      </Filters>
      <p class="bad" role="alert">
        {error}
      </p>
      {items?.length === 0 && <Nothing isFiltered={key !== ''} />}
      {hasRecords && <Records records={items} onOpen={(record) => (shown.value = record)} />}
      {loadMore !== null && (
        <div class="more">
          <button type="button" class="button" onClick={loadMore}>
            Load newer records
          </button>
        </div>
      )}
      {shown.value !== null && (
        <RecordDialog
          record={shown.value}
          onClose={() => (shown.value = null)}
          onAction={(kind) => {
            const { id, table } = shown.value as QuarantinedRecord;
            shown.value = null;
            action.value = { kind, filter: { id, table } };
          }}
        />
      )}
      {action.value?.kind === 'replay' && (
        <Replay
          filter={action.value.filter}
          tables={[...new Set(items?.map(({ table }) => table))]}
          onClose={() => (action.value = null)}
          onDone={reload}
        />
      )}
      {action.value?.kind === 'drop' && (
        <Drop filter={action.value.filter} onClose={() => (action.value = null)} onDone={reload} />
      )}
    </main>
  );
}

const Nothing = ({ isFiltered }: { isFiltered: boolean }) => (
  <div class="empty">
    <h2>{isFiltered ? 'No record matches these filters' : 'Nothing is in quarantine'}</h2>
    {!isFiltered && (
      <p>
        With <code>on_error=quarantine</code> an insert stores the good records of a batch and keeps the others here,
        with what is wrong with each. An import can send them here, too.
      </p>
    )}
  </div>
);

interface RecordsProps {
  readonly records: readonly QuarantinedRecord[];
  readonly onOpen: (record: QuarantinedRecord) => void;
}

const Records = ({ records, onOpen }: RecordsProps) => (
  <div class="scroll" tabIndex={0} role="region" aria-label="Records">
    <table class="list quarantined">
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col" class="wide-only">
            Table
          </th>
          <th scope="col">What is wrong</th>
          <th scope="col" class="wide-only">
            Record
          </th>
        </tr>
      </thead>
      <tbody>
        {records.map((record) => (
          <tr key={record.id}>
            <th scope="row">
              <button type="button" class="link" title={record.time} onClick={() => onOpen(record)}>
                {dayAndTime(record.time)}
              </button>
              <p class="narrow-only mono">{record.table}</p>
            </th>
            <td class="mono wide-only">{record.table}</td>
            <td class="is-text bad">{record.errors.map(({ message }) => message).join('; ')}</td>
            <td class="mono quarantined-record wide-only">{oneLine(record.record)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

interface RecordDialogProps {
  readonly record: QuarantinedRecord;
  readonly onClose: () => void;
  readonly onAction: (kind: Action['kind']) => void;
}

const RecordDialog = ({ record: { table, time, record, errors }, onClose, onAction }: RecordDialogProps) => (
  <Dialog title={`A record for ${table}`} onClose={onClose}>
    <p class="quiet">Refused on {dayAndTime(time)}</p>
    <ul class="verdicts">
      {errors.map(({ message, hint, error }, i) => (
        <li key={i}>
          <span class="bad">{message}</span> <code class="quiet">{error}</code>
          {hint !== undefined && !message.endsWith(hint) && <p class="quiet">{hint}</p>}
        </li>
      ))}
    </ul>
    <div class="cell-value" tabIndex={0} role="region" aria-label="The record as it was sent">
      {/^\s*[[{]/.test(record) ? <JsonTree text={record} /> : <pre>{record}</pre>}
    </div>
    {may('data:write') && (
      <div class="dialog-actions">
        <button type="button" class="button is-danger" onClick={() => onAction('drop')}>
          Drop …
        </button>
        <button type="button" class="button is-primary" onClick={() => onAction('replay')}>
          Try again …
        </button>
      </div>
    )}
  </Dialog>
);
