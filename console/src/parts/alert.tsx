/** What went wrong; screen readers say it at once. */
import type { ComponentChildren } from 'preact';

export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="bad" role="alert">
    {children}
  </p>
);
