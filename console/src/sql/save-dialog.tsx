/** Asks for the name under which to save a query. */
import { useRef } from 'preact/hooks';
import { Field } from '../parts/fields.js';
import type { ChartState } from '../chart/choice.js';
import { Dialog } from '../parts/dialog.js';
import { say } from '../parts/announcements.js';
import { changeTab, currentId, save } from './tabs.js';

interface SaveDialogProps {
  readonly name: string;
  readonly text: string;
  readonly chart: ChartState | undefined;
  readonly onClose: () => void;
}

export function SaveDialog({ name, text, chart, onClose }: SaveDialogProps) {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const chosen = field.current?.value.trim() ?? '';
    if (chosen === '') return;
    changeTab(currentId.value, { title: chosen });
    void save(chosen, text, chart).then(() => say(`Saved as ${chosen}`));
    onClose();
  };
  return (
    <Dialog title="Save this query" onClose={onClose}>
      <form class="dialog-form" onSubmit={submit}>
        <Field label="Name">
          <input ref={field} value={name} required maxLength={100} autocomplete="off" />
        </Field>
        <p class="quiet">
          It is kept in this browser, for this project{chart?.isShown && ', with its chart'}. A query of the same name
          is replaced.
        </p>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button is-primary">
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
