/**
 * The tabs of the SQL screen with their contents, the history and the saved queries. They are saved for each project.
 */
import { effect, signal } from '@preact/signals';
import type { ChartState } from '../chart/choice.js';
import { readStored, updateStored } from '../kept.js';
import { say } from '../parts/announcements.js';
import type { ResultSettings } from '../results/result-view.js';
import { currentSession, session, type Session } from '../session.js';
import type { Run } from './run.js';

export interface Tab extends ResultSettings {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  /** null is NULL. */
  readonly params: readonly (string | null)[];
  /** What a saved query calls its parameters. */
  readonly paramNames?: readonly string[] | undefined;
  readonly readOnly: boolean;
}

export interface HistoryEntry {
  readonly at: number;
  readonly text: string;
  readonly state: string;
  readonly ms: number;
  readonly rows: number;
}

export interface SavedQuery {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly chart?: ChartState | undefined;
}

const HISTORY_AT_MOST = 300;
const TEXT_AT_MOST = 20_000;

export const tabs = signal<readonly Tab[]>([]);
export const currentId = signal('');
export const runs = signal<ReadonlyMap<string, Run>>(new Map());
export const history = signal<readonly HistoryEntry[]>([]);
export const saved = signal<readonly SavedQuery[]>([]);

/** Not crypto.randomUUID, which browsers provide only over HTTPS. */
const newId = (): string => `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

let loadedFor: Session | undefined;
let loading = Promise.resolve();

/** The tabs that this window has loaded, created or closed. Tabs of other windows are not in it and must not change. */
const known = new Set<string>();

/** For the next write. */
let timer: ReturnType<typeof setTimeout> | undefined;

/** In sessionStorage, because each window has its own current tab. */
const CURRENT = 'cdp-console-tab';
effect(() => {
  if (currentId.value !== '') sessionStorage.setItem(CURRENT, currentId.value);
});

/** Loads once per session. */
export function loadTabs(): Promise<void> {
  if (loadedFor !== currentSession()) {
    loadedFor = currentSession();
    loading = load(loadedFor);
  }
  return loading;
}

async function load(of: Session): Promise<void> {
  for (const run of runs.value.values()) run.release();
  runs.value = new Map();
  const kept = withUnsaved((await readStored<readonly Tab[]>('tabs', of)) ?? [], of);
  history.value = (await readStored<readonly HistoryEntry[]>('history', of)) ?? [];
  saved.value = (await readStored<readonly SavedQuery[]>('saved', of)) ?? [];
  const last = sessionStorage.getItem(CURRENT);
  tabs.value = kept.length > 0 ? kept : [emptyTab([])];
  known.clear();
  for (const { id } of tabs.value) known.add(id);
  currentId.value = (tabs.value.find(({ id }) => id === last) ?? tabs.value[0])?.id ?? '';
  keepTabs();
}

function emptyTab(others: readonly Tab[]): Tab {
  let n = others.length + 1;
  while (others.some(({ title }) => title === `Query ${n}`)) n++;
  return { id: newId(), title: `Query ${n}`, text: '', params: [], readOnly: true };
}

export function openTab(
  text = '',
  title?: string,
  more: Partial<Pick<Tab, 'chart' | 'params' | 'paramNames'>> = {},
): void {
  const tab = { ...emptyTab(tabs.value), text, ...more, ...(title === undefined ? {} : { title }) };
  known.add(tab.id);
  tabs.value = [...tabs.value, tab];
  currentId.value = tab.id;
  keepTabs();
}

export function changeTab(id: string, change: Partial<Omit<Tab, 'id'>>): void {
  tabs.value = tabs.value.map((tab) => (tab.id === id ? { ...tab, ...change } : tab));
  keepTabs();
}

export function closeTab(id: string): void {
  runs.value.get(id)?.stop();
  const before = tabs.value;
  const at = before.findIndex((tab) => tab.id === id);
  const closed = before[at];
  const left = before.filter((tab) => tab.id !== id);
  const empty = left.length === 0 ? emptyTab([]) : undefined;
  if (empty !== undefined) known.add(empty.id);
  tabs.value = empty === undefined ? left : [empty];
  if (currentId.value === id) currentId.value = tabs.value[Math.min(at, tabs.value.length - 1)]?.id ?? '';
  const others = new Map(runs.value);
  others.get(id)?.release();
  others.delete(id);
  runs.value = others;
  keepTabs();
  if (closed === undefined || closed.text.trim() === '') return;
  say(`${closed.title} closed`, () => {
    const now = tabs.value.filter((tab) => tab.id !== empty?.id || tab.text !== '');
    tabs.value = [...now.slice(0, at), closed, ...now.slice(at)];
    currentId.value = id;
    keepTabs();
  });
}

function keepTabs(): void {
  clearTimeout(timer);
  timer = setTimeout(writeTabs, 300);
}

function writeTabs(): void {
  clearTimeout(timer);
  timer = undefined;
  const own = tabs.peek();
  const change = (old: readonly Tab[] = []) => [...own, ...old.filter(({ id }) => !known.has(id))];
  if (loadedFor !== undefined) void updateStored('tabs', change, loadedFor);
}

effect(() => {
  if (session.value === null && timer !== undefined) writeTabs();
});

/** Text typed just before the page closes: a write to IndexedDB takes too long then, so sessionStorage keeps it. */
const UNSAVED = 'cdp-console-unsaved';

addEventListener('pagehide', () => {
  if (timer === undefined || loadedFor === undefined) return;
  const texts = tabs.peek().map(({ id, title, text, params, readOnly }) => ({ id, title, text, params, readOnly }));
  sessionStorage.setItem(UNSAVED, JSON.stringify({ project: loadedFor.project?.id, texts }));
  writeTabs();
});

/** The tabs with the text typed last in this window. */
function withUnsaved(kept: readonly Tab[], { project }: Session): readonly Tab[] {
  const unsaved = sessionStorage.getItem(UNSAVED);
  sessionStorage.removeItem(UNSAVED);
  if (unsaved === null) return kept;
  const written = JSON.parse(unsaved) as { project?: string; texts: readonly Tab[] };
  if (written.project !== project?.id) return kept;
  const old = new Map(kept.map((tab) => [tab.id, tab]));
  for (const tab of written.texts) old.set(tab.id, { ...old.get(tab.id), ...tab });
  return [...old.values()];
}

/** @param of the session of the run: another user may have logged in before it ends */
export async function addToHistory(entry: HistoryEntry, of: Session): Promise<void> {
  const short = { ...entry, text: entry.text.slice(0, TEXT_AT_MOST) };
  const change = (old: readonly HistoryEntry[] = []) => [short, ...old].slice(0, HISTORY_AT_MOST);
  const all = await updateStored('history', change, of);
  if (loadedFor === of) history.value = all;
}

export async function clearHistory(): Promise<void> {
  history.value = await updateStored<readonly HistoryEntry[]>('history', () => []);
}

/** Replaces the text of an existing query with this name. */
export async function save(name: string, text: string, chart: ChartState | undefined): Promise<void> {
  saved.value = await updateStored<readonly SavedQuery[]>('saved', (old = []) =>
    [...old.filter((query) => query.name !== name), { id: newId(), name, text, chart }].sort((a, b) =>
      a.name.localeCompare(b.name),
    ),
  );
}

export async function forget(id: string): Promise<void> {
  saved.value = await updateStored<readonly SavedQuery[]>('saved', (old = []) =>
    old.filter((query) => query.id !== id),
  );
}
