/** Who did what: the audit log with its filters, which are part of the address, a page at a time. */
import './operate.css';
import { useSignal } from '@preact/signals';
import { AUDIT_OPERATIONS } from '../../../src/contract/audit.js';
import type { AuditEntry } from '../../../src/contract/wire/audit.js';
import { Dialog } from '../parts/dialog.js';
import { ChoiceFilter, Filters, filtersIn, TextFilter, TimeFilters } from '../parts/filters.js';
import { count, duration } from '../parts/numbers.js';
import { usePages } from '../parts/pages.js';
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
    <main class="operate is-wide" aria-busy={items === null}>
      <header class="operate-head">
        <h1>Audit log</h1>
      </header>
      <Filters key={key} screen="audit">
        <TextFilter name="project" label="Project" />
        <ChoiceFilter name="operation" label="Operation" choices={AUDIT_OPERATIONS} />
        <ChoiceFilter name="outcome" label="Outcome" choices={['ok', 'failed']} />
        <TextFilter name="token" label="Id of the token" />
        <TimeFilters />
      </Filters>
      <p class="bad" role="alert">
        {error}
      </p>
      {items?.length === 0 && (
        <div class="empty">
          <h2>No entries</h2>
          <p>
            {key === '' ? 'Nothing was recorded yet, or the setting audit is off.' : 'Nothing matches these filters.'}
          </p>
        </div>
      )}
      {items !== null && items.length > 0 && <Entries entries={items} />}
      {loadMore !== null && (
        <div class="more">
          <button type="button" class="button" onClick={loadMore}>
            Load older entries
          </button>
        </div>
      )}
    </main>
  );
}

const Entries = ({ entries }: { entries: readonly AuditEntry[] }) => {
  const shown = useSignal<AuditEntry | null>(null);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Entries">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Operation</th>
            <th scope="col">Outcome</th>
            <th scope="col">Project</th>
            <th scope="col">Object</th>
            <th scope="col">Who</th>
            <th scope="col" class="is-number">
              Rows
            </th>
            <th scope="col" class="is-number wide-only">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.id}>
              <td>
                <time dateTime={entry.time} title={entry.time}>
                  {dayAndTime(entry.time)}
                </time>
              </td>
              <th scope="row">
                <button type="button" class="link mono" onClick={() => (shown.value = entry)}>
                  {entry.operation}
                </button>
                {entry.count > 1 && <span class="quiet"> ×{count(entry.count)}</span>}
              </th>
              <td class={entry.outcome === 'ok' ? 'quiet' : 'bad'}>{entry.outcome}</td>
              <td class="is-text">{entry.project}</td>
              <td class="mono is-long">{entry.statement ?? entry.object}</td>
              <td class="is-text">{entry.actor_name ?? entry.actor_id ?? entry.actor}</td>
              <td class="is-number">{entry.rows === null ? '' : count(entry.rows)}</td>
              <td class="is-number wide-only">{entry.duration_ms === null ? '' : duration(entry.duration_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.value !== null && (
        <Dialog title={shown.value.operation} onClose={() => (shown.value = null)}>
          <Facts of={shown.value} />
        </Dialog>
      )}
    </div>
  );
};
