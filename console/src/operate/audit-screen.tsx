/** The audit log, one page at a time. Its filters are part of the URL. */
import './operate.css';
import { useRef } from 'preact/hooks';
import type { AuditEntry } from '../../../src/contract/wire/audit.js';
import { Alert } from '../parts/announcements.js';
import { Dialog, useDialog } from '../parts/dialog.js';
import { ChoiceFilter, Filters, filtersIn, TimeFilters } from '../parts/filters.js';
import { count, duration, dayAndTime } from '../parts/formats.js';
import { useLoaded } from '../parts/loaded.js';
import { usePages } from '../parts/pages.js';
import { Empty, More, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { routeQuery } from '../route.js';
import { auditWords, listProjects, listTokens, readAudit } from './admin-api.js';
import { Facts } from './facts.js';

const PAGE = 100;

const FIELDS = ['project', 'operation', 'outcome', 'token', 'since', 'until'] as const;

/** Also what the setting `audit: changes` omits, such as the reads of this console. */
const EVERYTHING = 'everything';

export function AuditScreen() {
  const query = routeQuery.value;
  const key = query.toString();
  const seen = useRef<Seen>({ projects: new Set(), tokens: new Map() });
  const { items, error, loadMore } = usePages<AuditEntry>(async (before) => {
    const filter = filtersIn(query, FIELDS);
    // An operation that is chosen is shown, whatever it is.
    if (query.get('show') !== EVERYTHING && !filter.has('operation')) filter.set('changes', 'true');
    filter.set('limit', String(PAGE));
    if (before !== null) filter.set('before', before);
    const { entries, next } = await readAudit(filter);
    for (const entry of entries) note(seen.current, entry);
    return { items: entries, next };
  }, key);

  return (
    <Screen title="Audit log" isWide isBusy={items === null}>
      <Filters key={key} screen="audit">
        <ChoiceFilter name="show" label="Show" choices={[EVERYTHING]} none="changes and failures" />
        <ProjectFilter seen={seen.current.projects} />
        <OperationFilter />
        <ChoiceFilter name="outcome" label="Outcome" choices={['ok', 'failed']} />
        <TokenFilter project={query.get('project') ?? ''} seen={seen.current.tokens} />
        <TimeFilters />
      </Filters>
      <Alert>{error}</Alert>
      {items?.length === 0 && (
        <Empty title="No entries">
          {key === '' ? 'No change was recorded yet, or the setting audit is off.' : 'Nothing matches these filters.'}
        </Empty>
      )}
      {items !== null && items.length > 0 && <Entries entries={items} />}
      <More label="Load older entries" load={loadMore} />
    </Screen>
  );
}

/** What the entries read so far name: it may exist no longer. */
interface Seen {
  readonly projects: Set<string>;
  /** Names by id. */
  readonly tokens: Map<string, string>;
}

function note(seen: Seen, { project, actor_id: id, actor_name: name }: AuditEntry): void {
  if (project !== null) seen.projects.add(project);
  if (id !== null) seen.tokens.set(id, tokenName(id, name));
}

/** Several tokens may have the same name. */
const tokenName = (id: string, name: string | null): string => (name === null ? id : `${name} (${id.slice(0, 8)})`);

const ProjectFilter = ({ seen }: { seen: ReadonlySet<string> }) => {
  const { value: projects = [] } = useLoaded(listProjects, '');
  return (
    <ChoiceFilter name="project" label="Project" choices={[...projects.map(({ name }) => name), ...seen].sort()} />
  );
};

/** The tokens of the project, and those that the entries name. */
const TokenFilter = ({ project, seen }: { project: string; seen: ReadonlyMap<string, string> }) => {
  const { value: tokens = [] } = useLoaded(() => tokensOf(project), project);
  const names = new Map([...tokens.map(({ id, name }) => [id, tokenName(id, name)] as const), ...seen]);
  return <ChoiceFilter name="token" label="Token" choices={names.keys()} names={names} />;
};

/** None if there is no such project any more. */
async function tokensOf(project: string): ReturnType<typeof listTokens> {
  const projects = project === '' ? [] : await listProjects();
  return projects.some(({ name }) => name === project) ? listTokens(project) : [];
}

const OperationFilter = () => {
  const { value: words = [] } = useLoaded(auditWords, '');
  return <ChoiceFilter name="operation" label="Operation" choices={words} />;
};

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
