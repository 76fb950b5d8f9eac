/** A dialog that changes something. It shows the request, also as a curl command, and the error if it is refused. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { CdpError } from '../../../src/client/index.js';
import { Alert, say } from './announcements.js';
import { type ApiRequest, Curl, send } from './api-request.js';
import { Dialog } from './dialog.js';
import { explain } from './loaded.js';

interface ActionFormProps<Result> {
  title: string;
  /** The label of the button. */
  action: string;
  /** The label of the other button. */
  keep?: string;
  /** The message of the toast afterward. */
  done: string | ((response: Result) => string);
  /** null: the form is incomplete. */
  request: ApiRequest | null;
  /** Sends the change if it needs more than this request. */
  run?: () => Promise<Result>;
  isDangerous?: boolean;
  onClose: () => void;
  /** Called before the dialog closes. */
  onDone: (response: Result) => void;
  children?: ComponentChildren;
}

export function ActionForm<Result>(props: ActionFormProps<Result>) {
  const { title, action, keep = 'Cancel', done, request, isDangerous = false } = props;
  const { run, onClose, onDone, children } = props;
  const error = useSignal<unknown>(null);
  const isBusy = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (request === null || isBusy.value) return;
    error.value = null;
    isBusy.value = true;
    try {
      const response = await (run === undefined ? send<Result>(request) : run());
      say(typeof done === 'string' ? done : done(response));
      onDone(response);
      onClose();
    } catch (thrown) {
      error.value = thrown;
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="dialog-form" onSubmit={(event) => void submit(event)} aria-busy={isBusy.value}>
        {children}
        {request !== null && <Curl request={request} />}
        <Refused error={error.value} />
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

/** The error, and below it every other place that is wrong. */
function Refused({ error }: { error: unknown }) {
  if (error === null) return null;
  const others = error instanceof CdpError ? error.errors.filter(({ message }) => message !== error.message) : [];
  return (
    <>
      <Alert>{explain(error)}</Alert>
      {others.length > 0 && (
        <ul class="places">
          {others.map(({ message }, i) => (
            <li key={i}>{message}</li>
          ))}
        </ul>
      )}
    </>
  );
}
