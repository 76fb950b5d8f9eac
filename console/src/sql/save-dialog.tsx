/** Asks for the name under which to save a query. */
import { useSignal } from '@preact/signals';
import type { ChartState } from '../chart/choice.js';
import { Alert, say } from '../parts/announcements.js';
import { Dialog } from '../parts/dialog.js';
import { CheckboxField, TextField } from '../parts/fields.js';
import { explain } from '../parts/loaded.js';
import { hasScope } from '../session.js';
import { nameFor, saveQuery, savesInProject } from './saved-queries.js';
import { changeTab, currentId } from './tabs.js';

interface SaveDialogProps {
  readonly name: string;
  readonly text: string;
  readonly chart: ChartState | undefined;
  /** Whether it ran as the writer. */
  readonly writes: boolean;
  readonly onClose: () => void;
}

export function SaveDialog(props: SaveDialogProps) {
  const { text, chart, onClose } = props;
  const title = useSignal(props.name);
  const writes = useSignal(props.writes);
  const error = useSignal('');
  const isShared = savesInProject();
  const chosen = title.value.trim();
  const name = nameFor(chosen);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (chosen === '') return;
    try {
      await saveQuery({ title: chosen, text, chart, writes: writes.value });
    } catch (thrown) {
      error.value = explain(thrown);
      return;
    }
    changeTab(currentId.value, { title: chosen });
    say(`Saved as ${chosen}`);
    onClose();
  };
  return (
    <Dialog title="Save this query" onClose={onClose}>
      <form class="dialog-form" onSubmit={(event) => void submit(event)}>
        <TextField label="Name" class="" text={title} required maxLength={100} />
        {isShared && hasScope('sql:write') && (
          <CheckboxField
            label="It writes: it runs as the writer, whoever runs it"
            isChecked={writes.value}
            onChange={(on) => (writes.value = on)}
          />
        )}
        <p class="quiet">
          {isShared ? (
            <>
              Everybody in the project sees it{chart?.isShown && ', with its chart'}
              {name !== '' && (
                <>
                  ; programs run it as <code>{name}</code>
                </>
              )}
              . A query of the same name is replaced.
            </>
          ) : (
            <>
              It is kept in this browser, for this project{chart?.isShown && ', with its chart'}. A query of the same
              name is replaced.
            </>
          )}
        </p>
        <Alert>{error.value}</Alert>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button is-primary" disabled={isShared && name === ''}>
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}
