/** Goes through system, light and dark. */
import { nextTheme, theme } from '../theme.js';
import { Icon } from './icon.js';

const ICONS = { system: 'system', light: 'sun', dark: 'moon' } as const;

export const ThemeButton = () => (
  <button
    type="button"
    class="button is-icon"
    title={`Theme: ${theme.value}`}
    aria-label={`Theme: ${theme.value}. Change to ${nextTheme()}`}
    onClick={() => (theme.value = nextTheme())}
  >
    <Icon name={ICONS[theme.value]} />
  </button>
);
