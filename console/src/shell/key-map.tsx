/** The keys that work everywhere, and the list of all keys. */
import { signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import { Dialog } from '../parts/dialog.js';
import { goTo } from '../route.js';
import type { ScreenEntry } from '../screens.js';

export const keyMapIsOpen = signal(false);

const isMac = navigator.platform.startsWith('Mac');
export const MOD = isMac ? '⌘' : 'Ctrl';

type Row = readonly [keys: string, what: string];

/** The keys of each screen. */
const KEYS: readonly (readonly [path: string, title: string, rows: readonly Row[]])[] = [
  [
    'sql',
    'SQL editor',
    [
      [`${MOD} Enter`, 'Run the selection, or the statement at the cursor'],
      [`${MOD} Shift Enter`, 'Run everything, in one transaction'],
      [`${MOD} E`, 'Explain the statement at the cursor'],
      ['Ctrl Space', 'Complete'],
      ['Tab', 'Indent; press Esc first to move on instead'],
      ['Esc Esc', 'Stop what runs'],
    ],
  ],
  [
    'sql',
    'Rows and results',
    [
      ['↑ ↓ ← →', 'Move from cell to cell'],
      ['Home End', 'First and last column'],
      [`${MOD} Home ${MOD} End`, 'First and last row'],
      ['Page Up, Page Down', 'A screen up or down'],
      ['Shift ↑ ↓ ← →', 'Extend the selection'],
      [`${MOD} A`, 'Select all rows that are held'],
      [`${MOD} C`, 'Copy as TSV'],
      ['Enter', 'Show the whole value'],
      ['o', 'Sort by the column: ascending, descending, as returned'],
      ['+ −', 'Make the column wider or narrower; 0 resets it'],
      ['↑ ↓ ← →', 'In a chart: from value to value'],
    ],
  ],
  [
    'import',
    'Import',
    [
      [`${MOD} V`, 'Import the rows, or the file, in the clipboard'],
      ['Tab', 'In refused records: next cell'],
      ['↑ ↓', 'The same cell of the record above or below'],
      ['Enter', 'The cell below'],
    ],
  ],
];

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** `?`, and `g` followed by the first letter of a screen. */
export function useShellKeys(screens: readonly ScreenEntry[]): void {
  useLayoutEffect(() => {
    let isGoing = false;
    const take = (event: KeyboardEvent) => {
      const [target] = event.composedPath();
      if (isTyping(target ?? null) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector('dialog[open]') !== null) return;
      const screen = isGoing ? screens.find(({ path }) => path.startsWith(event.key)) : undefined;
      isGoing = event.key === 'g' && !isGoing;
      if (screen !== undefined) goTo(screen.path);
      else if (event.key === '?') keyMapIsOpen.value = true;
      else if (event.key === '/') document.querySelector<HTMLElement>('input[type=search]')?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', take);
    return () => removeEventListener('keydown', take);
  }, []);
}

const everywhere = (screens: readonly ScreenEntry[]): Row[] => [
  ['?', 'Show this map'],
  ...screens.map(({ path, label }): Row => [`g ${path.charAt(0)}`, `Go to ${label}`]),
  ...(screens.some(({ path }) => path === 'tables') ? [['/', 'Search the tables'] as const] : []),
  ['Esc', 'Close a dialog or a panel'],
];

export const KeyMap = ({ screens }: { screens: readonly ScreenEntry[] }) => (
  <Dialog title="Keys" onClose={() => (keyMapIsOpen.value = false)}>
    <div class="keys">
      {[
        ['', 'Everywhere', everywhere(screens)] as const,
        ...KEYS.filter(([path]) => screens.some((screen) => screen.path === path)),
      ].map(([, title, rows]) => (
        <section key={title}>
          <h3>{title}</h3>
          <dl>
            {rows.map(([keys, what]) => (
              <div key={keys}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </div>
  </Dialog>
);
