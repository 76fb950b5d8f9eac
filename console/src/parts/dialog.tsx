/** A modal dialog. The browser's own keeps the focus inside and closes with Escape. The first field gets the focus. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { IconButton } from './icon.js';

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>('input, select, textarea, [autofocus]')?.focus();
    // While it still exists, so that the focus returns to where it was.
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class="dialog"
      aria-labelledby={id}
      onCancel={onClose}
      onClick={(event) => event.target === element.current && onClose()}
    >
      <div class="dialog-body">
        <div class="dialog-head">
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

type Make = (close: () => void) => ComponentChildren;

/** Shows one dialog at a time. If a dialog opens another one and then closes, the other one stays open. */
export function useDialog(): { readonly dialog: ComponentChildren; readonly open: (make: Make) => void } {
  const shown = useSignal<{ readonly make: Make } | null>(null);
  const current = shown.value;
  const close = () => {
    if (shown.value === current) shown.value = null;
  };
  return { dialog: current?.make(close), open: (make) => void (shown.value = { make }) };
}

/** A dialog that is only read. */
export const Notice = ({ title, onClose, children }: DialogProps) => (
  <Dialog title={title} onClose={onClose}>
    {children}
    <div class="dialog-actions">
      <button type="button" class="button is-primary" onClick={onClose}>
        Done
      </button>
    </div>
  </Dialog>
);
