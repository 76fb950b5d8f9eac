/** Who did what: the audit log with its filters, which are part of the address, a page at a time. */
import './operate.css';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { AUDIT_OPERATIONS } from '../../../src/contract/audit.js';
import type { AuditEntry } from '../../../src/contract/wire/audit.js';
import { Dialog } from '../parts/dialog.js';
import { count, duration } from '../parts/numbers.js';
import { linkTo, routeQuery } from '../route.js';
import { readAudit } from './admin-api.js';
import { Facts } from './facts.js';
import { explain } from './loaded.js';
import { dayAndTime } from './times.js';

const PAGE = 100;

const FIELDS = ['project', 'operation', 'outcome', 'token', 'since', 'until'] as const;

export function AuditScreen() {
  const entries = useSignal<readonly AuditEntry[] | null>(null);
  const next = useSignal<string | null>(null);
  const error = useSignal('');
  const query = routeQuery.value;
  const key = query.toString();

  const load = async (before: string | null, isOver: () => boolean = () => false) => {
    const filter = new URLSearchParams({ limit: String(PAGE) });
    for (const field of FIELDS) {
      const value = query.get(field);
      if (value) filter.set(field, value);
    }
    if (before !== null) filter.set('before', before);
    try {
      const answer = await readAudit(filter);
      if (isOver()) return;
      entries.value = [...(before === null ? [] : (entries.value ?? [])), ...answer.entries];
      next.value = answer.next;
      error.value = '';
    } catch (thrown) {
      if (!isOver()) error.value = explain(thrown);
    }
  };

  useEffect(() => {
    let isOver = false;
    entries.value = null;
    void load(null, () => isOver);
    return () => {
      isOver = true;
    };
  }, [key]);

  return (
    <main class="operate is-wide" aria-busy={entries.value === null}>
      <header class="operate-head">
        <h1>Audit log</h1>
      </header>
      <Filters key={key} />
      <p class="bad" role="alert">
        {error.value}
      </p>
      {entries.value?.length === 0 && (
        <div class="empty">
          <h2>No entries</h2>
          <p>
            {key === '' ? 'Nothing was recorded yet, or the setting audit is off.' : 'Nothing matches these filters.'}
          </p>
        </div>
      )}
      {entries.value !== null && entries.value.length > 0 && <Entries entries={entries.value} />}
      {next.value !== null && (
        <div class="more">
          <button type="button" class="button" onClick={() => void load(next.value)}>
            Load older entries
          </button>
        </div>
      )}
    </main>
  );
}

/** The names of the form's fields are those of the API. */
function Filters() {
  const query = routeQuery.value;
  const apply = (event: Event) => {
    event.preventDefault();
    const chosen = new URLSearchParams();
    for (const [name, value] of new FormData(event.currentTarget as HTMLFormElement)) {
      if (typeof value !== 'string' || value.trim() === '') continue;
      const isTime = name === 'since' || name === 'until';
      chosen.set(name, isTime ? new Date(value).toISOString() : value.trim());
    }
    location.hash = `${linkTo('audit')}${chosen.size === 0 ? '' : `?${chosen}`}`;
  };
  return (
    <form class="filters" onSubmit={apply}>
      <label class="field">
        <span class="field-label">Project</span>
        <input name="project" class="mono" autocomplete="off" value={query.get('project') ?? ''} />
      </label>
      <label class="field">
        <span class="field-label">Operation</span>
        <select name="operation">
          <option value="">all</option>
          {AUDIT_OPERATIONS.map((operation) => (
            <option key={operation} value={operation} selected={operation === query.get('operation')}>
              {operation}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span class="field-label">Outcome</span>
        <select name="outcome">
          {['', 'ok', 'failed'].map((outcome) => (
            <option key={outcome} value={outcome} selected={outcome === (query.get('outcome') ?? '')}>
              {outcome === '' ? 'all' : outcome}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span class="field-label">From</span>
        <input type="datetime-local" name="since" value={local(query.get('since'))} />
      </label>
      <label class="field">
        <span class="field-label">To</span>
        <input type="datetime-local" name="until" value={local(query.get('until'))} />
      </label>
      <div class="filters-end">
        <button type="submit" class="button is-primary">
          Apply
        </button>
        {query.size > 0 && (
          <a class="button is-quiet" href={linkTo('audit')}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

/** As an input of local time takes it. */
function local(time: string | null): string {
  const date = new Date(time ?? '');
  if (Number.isNaN(date.getTime())) return '';
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
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
