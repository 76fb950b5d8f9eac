/** The tabs of the SQL screen with what they hold, their history and the saved queries: kept for each project. */
import { signal } from '@preact/signals';
import type { ChartState } from '../chart/choice.js';
import { read, update } from '../kept.js';
import type { ResultSettings } from '../results/result-view.js';
import { entered } from '../session.js';
import type { Run } from './run.js';

export interface Tab extends ResultSettings {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  /** null is NULL. */
  readonly params: readonly (string | null)[];
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

/** Not crypto.randomUUID, which browsers have only over HTTPS. */
const newId = (): string => `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;

let loadedFor: unknown;

/** Once for a session. @param linked the text of a link: it opens in a tab of its own, and is not run */
export async function loadTabs(linked: string | null): Promise<void> {
  if (loadedFor !== entered()) {
    loadedFor = entered();
    runs.value = new Map();
    const kept = (await read<readonly Tab[]>('tabs')) ?? [];
    history.value = (await read<readonly HistoryEntry[]>('history')) ?? [];
    saved.value = (await read<readonly SavedQuery[]>('saved')) ?? [];
    tabs.value = kept.length > 0 ? kept : [emptyTab([])];
    currentId.value = tabs.value[0]?.id ?? '';
  }
  if (linked !== null) openTab(linked, 'Link');
}

function emptyTab(others: readonly Tab[]): Tab {
  let n = others.length + 1;
  while (others.some(({ title }) => title === `Query ${n}`)) n++;
  return { id: newId(), title: `Query ${n}`, text: '', params: [], readOnly: true };
}

export function openTab(text = '', title?: string, chart?: ChartState): void {
  const tab = { ...emptyTab(tabs.value), text, chart, ...(title === undefined ? {} : { title }) };
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
  const at = tabs.value.findIndex((tab) => tab.id === id);
  const left = tabs.value.filter((tab) => tab.id !== id);
  tabs.value = left.length > 0 ? left : [emptyTab([])];
  if (currentId.value === id) currentId.value = tabs.value[Math.min(at, tabs.value.length - 1)]?.id ?? '';
  const others = new Map(runs.value);
  others.delete(id);
  runs.value = others;
  keepTabs();
}

let timer: ReturnType<typeof setTimeout> | undefined;

function keepTabs(): void {
  clearTimeout(timer);
  timer = setTimeout(() => void update<readonly Tab[]>('tabs', () => tabs.value), 300);
}

export async function addToHistory(entry: HistoryEntry): Promise<void> {
  const short = { ...entry, text: entry.text.slice(0, TEXT_AT_MOST) };
  history.value = await update<readonly HistoryEntry[]>('history', (old = []) =>
    [short, ...old].slice(0, HISTORY_AT_MOST),
  );
}

export async function clearHistory(): Promise<void> {
  history.value = await update<readonly HistoryEntry[]>('history', () => []);
}

/** Under a name that is there already, the new text replaces the old one. */
export async function save(name: string, text: string, chart: ChartState | undefined): Promise<void> {
  saved.value = await update<readonly SavedQuery[]>('saved', (old = []) =>
    [...old.filter((query) => query.name !== name), { id: newId(), name, text, chart }].sort((a, b) =>
      a.name.localeCompare(b.name),
    ),
  );
}

export async function forget(id: string): Promise<void> {
  saved.value = await update<readonly SavedQuery[]>('saved', (old = []) => old.filter((query) => query.id !== id));
}
