/**
 * Records that an insert with `on_error=quarantine` refused and kept: shows their errors, retries them, or deletes
 * them.
 */
import '../operate/operate.css';
import '../results/result-view.css';
import './quarantine.css';
import type { QuarantineResponse, QuarantinedRecord } from '../../../src/contract/wire/quarantine.js';
import { Alert } from '../parts/announcements.js';
import { send } from '../parts/api-request.js';
import { Dialog, useDialog } from '../parts/dialog.js';
import { ChoiceFilter, Filters, filtersIn, TimeFilters } from '../parts/filters.js';
import { useLoaded } from '../parts/loaded.js';
import { usePages } from '../parts/pages.js';
import { Empty, More, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { dayAndTime } from '../parts/formats.js';
import { oneLine } from '../results/cells.js';
import { JsonTree } from '../results/json-tree.js';
import { routeQuery } from '../route.js';
import { currentSession, hasScope } from '../session.js';
import { DropRecordsForm } from './drop.js';
import { EditRecordForm } from './edit.js';
import { Groups } from './groups.js';
import { ReplayRecordsForm } from './replay.js';

const FILTERS = ['table', 'error', 'column', 'since', 'until', 'id'] as const;

/** Selects the records of an action, by the API's names. */
export type Filter = Readonly<Partial<Record<(typeof FILTERS)[number], string>>>;

type Action = 'replay' | 'drop' | 'edit';

export function QuarantineScreen() {
  const inUrl = routeQuery.value;
  const key = inUrl.toString();
  const filter: Filter = Object.fromEntries(filtersIn(inUrl, FILTERS));
  const { items, error, loadMore, reload } = usePages<QuarantinedRecord>(async (after) => {
    const asked = filtersIn(inUrl, FILTERS);
    if (after !== null) asked.set('after', after);
    const path = `/api/cdp/quarantine?${asked}`;
    const { records, next } = await send<QuarantineResponse>({ method: 'GET', path });
    return { items: records, next };
  }, key);
  const { value: groups = [], reload: countAgain } = useLoaded(() => currentSession().client.quarantineGroups(), '');
  const choices = (of: 'table' | 'error' | 'column') => [...new Set(groups.flatMap((group) => group[of] ?? []))].sort();
  const changed = () => {
    void reload();
    void countAgain();
  };
  const { dialog, open } = useDialog();
  const hasRecords = items !== null && items.length > 0;
  const act = (kind: Action, on: Filter) =>
    open((close) => {
      const record = kind === 'edit' ? items?.find(({ id }) => id === on.id) : undefined;
      if (record !== undefined) return <EditRecordForm record={record} onClose={close} onDone={changed} />;
      if (kind === 'drop') return <DropRecordsForm filter={on} onClose={close} onDone={changed} />;
      const tables = [...new Set(items?.map(({ table }) => table))];
      return <ReplayRecordsForm filter={on} tables={tables} onClose={close} onDone={changed} />;
    });
  const show = (record: QuarantinedRecord) =>
    open((close) => (
      <RecordDialog
        record={record}
        onClose={close}
        onAction={(kind) => act(kind, { id: record.id, table: record.table })}
      />
    ));

  return (
    <Screen
      title="Quarantine"
      about="Records that were refused and kept, the oldest first."
      isWide
      isBusy={items === null}
      actions={
        hasRecords &&
        hasScope('data:write') && (
          <div class="actions">
            <button type="button" class="button" onClick={() => act('replay', filter)}>
              Try again …
            </button>
            <button type="button" class="button is-danger" onClick={() => act('drop', filter)}>
              Drop …
            </button>
          </div>
        )
      }
    >
      <Filters key={key} screen="quarantine">
        <ChoiceFilter name="table" label="Table" choices={choices('table')} />
        <ChoiceFilter name="error" label="Error code" choices={choices('error')} />
        <ChoiceFilter name="column" label="Column" choices={choices('column')} />
        <TimeFilters />
      </Filters>
      <Alert>{error}</Alert>
      {items?.length === 0 &&
        (key === '' ? (
          <Empty title="Nothing is in quarantine">
            With <code>on_error=quarantine</code> an insert stores the good records of a batch and keeps the others
            here, with what is wrong with each. An import can send them here, too.
          </Empty>
        ) : (
          <Empty title="No record matches these filters" />
        ))}
      {hasRecords && key === '' && groups.length > 0 && <Groups groups={groups} />}
      {hasRecords && <Records records={items} onOpen={show} />}
      <More label="Load newer records" load={loadMore} />
      {dialog}
    </Screen>
  );
}

interface RecordsProps {
  readonly records: readonly QuarantinedRecord[];
  readonly onOpen: (record: QuarantinedRecord) => void;
}

const Records = ({ records, onOpen }: RecordsProps) => (
  <Table
    label="Records"
    class="list quarantined"
    rows={records}
    keyOf={({ id }) => id}
    columns={[
      {
        title: 'Time',
        cell: (record) => (
          <>
            <button type="button" class="link" title={record.time} onClick={() => onOpen(record)}>
              {dayAndTime(record.time)}
            </button>
            <p class="narrow-only mono">{record.table}</p>
          </>
        ),
      },
      { title: 'Table', class: 'wide-only', cells: 'mono', cell: ({ table }) => table },
      {
        title: 'What is wrong',
        cells: 'is-text bad',
        cell: ({ errors }) => errors.map(({ message }) => message).join('; '),
      },
      {
        title: 'Record',
        class: 'wide-only',
        cells: 'mono quarantined-record',
        cell: ({ record }) => oneLine(record),
      },
    ]}
  />
);

interface RecordDialogProps {
  readonly record: QuarantinedRecord;
  readonly onClose: () => void;
  readonly onAction: (kind: Action) => void;
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
    {hasScope('data:write') && (
      <div class="dialog-actions">
        <button type="button" class="button is-danger" onClick={() => onAction('drop')}>
          Drop …
        </button>
        <button type="button" class="button" onClick={() => onAction('edit')}>
          Correct …
        </button>
        <button type="button" class="button is-primary" onClick={() => onAction('replay')}>
          Try again …
        </button>
      </div>
    )}
  </Dialog>
);
