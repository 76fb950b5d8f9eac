/** Cycles through system, light and dark. */
import { nextTheme, theme } from '../theme.js';
import { IconButton } from './icon.js';

const ICONS = { system: 'system', light: 'sun', dark: 'moon' } as const;

export const ThemeButton = () => (
  <IconButton
    icon={ICONS[theme.value]}
    label={`Theme: ${theme.value}. Change to ${nextTheme()}`}
    title={`Theme: ${theme.value}`}
    onClick={() => (theme.value = nextTheme())}
  />
);
