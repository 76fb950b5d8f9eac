/** A dialog that changes something: what will be sent, as curl too, and why it was refused. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Alert } from './alert.js';
import { type ApiRequest, Curl, send } from './api-request.js';
import { Dialog } from './dialog.js';
import { say } from './toast.js';
import { explain } from './loaded.js';

interface ActionFormProps<Answer> {
  title: string;
  /** The word on the button. */
  action: string;
  /** The word on the other one. */
  keep?: string;
  /** What the toast says afterwards. */
  done: string | ((answer: Answer) => string);
  /** null: something is missing yet. */
  request: ApiRequest | null;
  /** What sends it, if one request is not all. */
  run?: () => Promise<Answer>;
  isDangerous?: boolean;
  onClose: () => void;
  /** Called before the dialog closes. */
  onDone: (answer: Answer) => void;
  children?: ComponentChildren;
}

export function ActionForm<Answer>(props: ActionFormProps<Answer>) {
  const { title, action, keep = 'Cancel', done, request, isDangerous = false } = props;
  const { run, onClose, onDone, children } = props;
  const error = useSignal('');
  const isBusy = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (request === null || isBusy.value) return;
    error.value = '';
    isBusy.value = true;
    try {
      const answer = await (run === undefined ? send<Answer>(request) : run());
      say(typeof done === 'string' ? done : done(answer));
      onDone(answer);
      onClose();
    } catch (thrown) {
      error.value = explain(thrown);
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="dialog-form" onSubmit={(event) => void submit(event)} aria-busy={isBusy.value}>
        {children}
        {request !== null && <Curl request={request} />}
        <Alert>{error.value}</Alert>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            {keep}
          </button>
          <button
            type="submit"
            class={`button ${isDangerous ? 'is-danger' : 'is-primary'}`}
            disabled={request === null || isBusy.value}
          >
            {isBusy.value ? 'Working …' : action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
