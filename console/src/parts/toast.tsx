/** A short message about what was just done; screen readers say it. */
import { signal } from '@preact/signals';

const message = signal('');
let timer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string): void {
  message.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (message.value = ''), 4_000);
}

export const Toast = () => (
  <div class="toast" role="status" data-shown={message.value !== ''}>
    {message.value}
  </div>
);
