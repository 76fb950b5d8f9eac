/** An error message, which screen readers announce at once. */
import type { ComponentChildren } from 'preact';

export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="bad" role="alert">
    {children}
  </p>
);
