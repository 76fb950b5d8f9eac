/** Messages that screen readers announce: a short one about the last action, which it may offer to undo, and errors. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

interface Message {
  readonly text: string;
  /** Undoes the action. */
  readonly undo?: (() => void) | undefined;
}

const message = signal<Message | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, undo?: () => void): void {
  message.value = { text, undo };
  clearTimeout(timer);
  timer = setTimeout(() => (message.value = null), undo === undefined ? 4_000 : 8_000);
}

export function Toast() {
  const shown = message.value;
  return (
    <div class="toast" role="status" data-shown={shown !== null}>
      {shown?.text}
      {shown?.undo !== undefined && (
        <button
          type="button"
          class="link"
          onClick={() => {
            shown.undo?.();
            message.value = null;
          }}
        >
          Undo
        </button>
      )}
    </div>
  );
}

/** An error message, announced at once. */
export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="bad" role="alert">
    {children}
  </p>
);
