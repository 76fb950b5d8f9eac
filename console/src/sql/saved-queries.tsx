/**
 * The saved queries: those of the project, which all its members see, and those that an earlier console, or a token that may save none,
 * has kept in this browser.
 */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { isSavedName } from '../../../src/contract/names.js';
import type { Query, QueryBody } from '../../../src/contract/wire/queries.js';
import { type ChartState, KINDS } from '../chart/choice.js';
import { Alert, say } from '../parts/announcements.js';
import { ago } from '../parts/formats.js';
import { IconButton } from '../parts/icon.js';
import { explain } from '../parts/loaded.js';
import { currentSession, hasScope, session } from '../session.js';
import { parameterCount } from './statements.js';
import { forget, openTab, save, saved, type SavedQuery } from './tabs.js';

const ofProject = signal<readonly Query[]>([]);
const error = signal('');

/** Whether the token may save queries in the project: none that acts as a role may. */
export const savesInProject = (): boolean =>
  (hasScope('sql:read') || hasScope('sql:write')) && session.value?.role === null;

/** What people call a query, as a name that stands in paths: `By region` is `By-region`. '' if nothing is left of it. */
export function nameFor(title: string): string {
  const words = title
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .replace(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  const name = (/^[A-Za-z]/.test(words) || words === '' ? words : `q-${words}`).slice(0, 63);
  return isSavedName(name) ? name : '';
}

const titleOf = ({ name, description }: Query): string =>
  nameFor(description ?? '') === name ? (description ?? name) : name;

async function reload(): Promise<void> {
  if (!savesInProject()) return;
  try {
    ofProject.value = await currentSession().client.queries();
    error.value = '';
  } catch (thrown) {
    error.value = explain(thrown);
  }
}

export interface NewQuery {
  readonly title: string;
  readonly text: string;
  readonly chart: ChartState | undefined;
  readonly writes: boolean;
}

/** Saves in the project, or if the token may not, in this browser. @throws CdpError */
export async function saveQuery({ title, text, chart, writes }: NewQuery): Promise<void> {
  if (!savesInProject()) return save(title, text, chart);
  const name = nameFor(title);
  await reload();
  // Somebody may have named its parameters.
  const old = ofProject.value.find((query) => query.name === name);
  const count = parameterCount(text);
  const parameters: QueryBody['parameters'] =
    old?.parameters.length === count
      ? old.parameters
      : Array.from({ length: count }, (_, i) => ({ name: `p${i + 1}`, type: 'TEXT' as const }));
  await currentSession().client.saveQuery(name, {
    ...{ sql: text, parameters, writes, chart: chart ?? null },
    description: title === name ? (old?.description ?? null) : title,
  });
  await reload();
}

export function SavedQueries() {
  useEffect(() => void reload(), []);
  const inBrowser = saved.value;
  return (
    <>
      <Alert>{error.value}</Alert>
      {ofProject.value.length + inBrowser.length === 0 && (
        <p class="tree-note quiet">
          Queries that you save appear here
          {savesInProject() ? ', for everybody in the project.' : ', in this browser, for this project.'}
        </p>
      )}
      <ul class="side-list" aria-label="Queries of the project">
        {ofProject.value.map((query) => (
          <ProjectQuery key={query.name} query={query} />
        ))}
      </ul>
      {inBrowser.length > 0 && <InBrowser queries={inBrowser} />}
    </>
  );
}

function ProjectQuery({ query }: { query: Query }) {
  const { name, sql, parameters, updated_by: by, updated_at: at, writes } = query;
  const paramNames = parameters.map((parameter) => parameter.name);
  const title = titleOf(query);
  const remove = async () => {
    try {
      await currentSession().client.deleteQuery(name);
      say(`Query ${title} deleted`);
    } catch (thrown) {
      error.value = explain(thrown);
      return;
    }
    await reload();
  };
  return (
    <li>
      <button
        type="button"
        class="side-entry"
        title={sql}
        onClick={() => openTab(sql, title, { chart: chartOf(query), paramNames })}
      >
        <span class="side-text">{title}</span>
        <span class="side-fact quiet">
          by {by}, {ago(Date.parse(at))}
          {writes && ' · writes'}
        </span>
      </button>
      {(hasScope('sql:write') || !writes) && (
        <IconButton icon="trash" label={`Delete the saved query ${title}`} onClick={() => void remove()} />
      )}
    </li>
  );
}

/** What pages of others may have stored is not drawn. */
function chartOf({ chart }: Query): ChartState | undefined {
  const state: Partial<ChartState> | null = chart;
  if (typeof state?.isShown !== 'boolean') return undefined;
  const { isShown, choice = null } = state;
  const isChoice = choice !== null && KINDS.includes(choice.kind) && Array.isArray(choice.y);
  return { isShown, choice: isChoice ? choice : null };
}

function InBrowser({ queries }: { queries: readonly SavedQuery[] }) {
  const takeOver = async () => {
    let taken = 0;
    try {
      for (const { id, name, text, chart } of queries) {
        if (nameFor(name) === '') continue;
        await saveQuery({ title: name, text, chart, writes: false });
        await forget(id);
        taken++;
      }
      say(`${taken === 1 ? '1 query' : `${taken} queries`} saved in the project`);
    } catch (thrown) {
      error.value = explain(thrown);
    }
  };
  return (
    <>
      {savesInProject() && (
        <>
          <h2 class="side-title">In this browser</h2>
          <button type="button" class="button side-clear" onClick={() => void takeOver()}>
            Take over into the project
          </button>
        </>
      )}
      <ul class="side-list" aria-label="Queries in this browser">
        {queries.map(({ id, name, text, chart }) => (
          <li key={id}>
            <button type="button" class="side-entry" title={text} onClick={() => openTab(text, name, { chart })}>
              <span class="side-text">{name}</span>
            </button>
            <IconButton icon="trash" label={`Delete the saved query ${name}`} onClick={() => void forget(id)} />
          </li>
        ))}
      </ul>
    </>
  );
}
