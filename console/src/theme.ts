/** The theme: light, dark, or the system's. The browser keeps it. */
import { effect, signal } from '@preact/signals';

const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

const KEY = 'cdp-console-theme';

export const theme = signal<Theme>(THEMES.find((name) => name === localStorage.getItem(KEY)) ?? 'system');

export const nextTheme = (): Theme => THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system';

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(KEY, theme.value);
});
