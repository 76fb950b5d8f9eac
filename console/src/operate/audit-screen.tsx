/** The audit log, one page at a time. Its filters are part of the URL. */
import './operate.css';
import { AUDIT_OPERATIONS } from '../../../src/contract/audit.js';
import type { AuditEntry } from '../../../src/contract/wire/audit.js';
import { Alert } from '../parts/alert.js';
import { Dialog, useDialog } from '../parts/dialog.js';
import { ChoiceFilter, Filters, filtersIn, TextFilter, TimeFilters } from '../parts/filters.js';
import { count, duration } from '../parts/numbers.js';
import { usePages } from '../parts/pages.js';
import { Empty, More, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { dayAndTime } from '../parts/times.js';
import { routeQuery } from '../route.js';
import { readAudit } from './admin-api.js';
import { Facts } from './facts.js';

const PAGE = 100;

const FIELDS = ['project', 'operation', 'outcome', 'token', 'since', 'until'] as const;

export function AuditScreen() {
  const query = routeQuery.value;
  const key = query.toString();
  const { items, error, loadMore } = usePages<AuditEntry>(async (before) => {
    const filter = filtersIn(query, FIELDS);
    filter.set('limit', String(PAGE));
    if (before !== null) filter.set('before', before);
    const { entries, next } = await readAudit(filter);
    return { items: entries, next };
  }, key);

  return (
    <Screen title="Audit log" isWide isBusy={items === null}>
      <Filters key={key} screen="audit">
        <TextFilter name="project" label="Project" />
        <ChoiceFilter name="operation" label="Operation" choices={AUDIT_OPERATIONS} />
        <ChoiceFilter name="outcome" label="Outcome" choices={['ok', 'failed']} />
        <TextFilter name="token" label="Id of the token" />
        <TimeFilters />
      </Filters>
      <Alert>{error}</Alert>
      {items?.length === 0 && (
        <Empty title="No entries">
          {key === '' ? 'Nothing was recorded yet, or the setting audit is off.' : 'Nothing matches these filters.'}
        </Empty>
      )}
      {items !== null && items.length > 0 && <Entries entries={items} />}
      <More label="Load older entries" load={loadMore} />
    </Screen>
  );
}

const Entries = ({ entries }: { entries: readonly AuditEntry[] }) => {
  const { dialog, open } = useDialog();
  const show = (entry: AuditEntry) =>
    open((close) => (
      <Dialog title={entry.operation} onClose={close}>
        <Facts of={entry} />
      </Dialog>
    ));
  return (
    <>
      <Table
        label="Entries"
        rows={entries}
        keyOf={({ id }) => String(id)}
        columns={[
          {
            title: 'Time',
            cell: ({ time }) => (
              <time dateTime={time} title={time}>
                {dayAndTime(time)}
              </time>
            ),
          },
          {
            title: 'Operation',
            isHeader: true,
            cell: (entry) => (
              <>
                <button type="button" class="link mono" onClick={() => show(entry)}>
                  {entry.operation}
                </button>
                {entry.count > 1 && <span class="quiet"> ×{count(entry.count)}</span>}
              </>
            ),
          },
          {
            title: 'Outcome',
            cells: ({ outcome }) => (outcome === 'ok' ? 'quiet' : 'bad'),
            cell: ({ outcome }) => outcome,
          },
          { title: 'Project', cells: 'is-text', cell: ({ project }) => project },
          { title: 'Object', cells: 'mono is-long', cell: ({ statement, object }) => statement ?? object },
          {
            title: 'Who',
            cells: 'is-text',
            cell: ({ actor_name, actor_id, actor }) => actor_name ?? actor_id ?? actor,
          },
          { title: 'Rows', class: 'is-number', cell: ({ rows }) => rows !== null && count(rows) },
          {
            title: 'Took',
            class: 'is-number wide-only',
            cell: ({ duration_ms: ms }) => ms !== null && duration(ms),
          },
        ]}
      />
      {dialog}
    </>
  );
};
