/** The running requests of all projects, which the operator can cancel. */
import './operate.css';
import type { RunningRequest } from '../../../src/contract/wire/requests.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { counted, duration } from '../parts/formats.js';
import { Empty, Screen } from '../parts/screen.js';
import { actionColumn, Table } from '../parts/table.js';
import { linkTo } from '../route.js';
import { ActionForm } from '../parts/action-form.js';
import { cancelRequest, listRequests } from './admin-api.js';
import { useLoaded } from '../parts/loaded.js';

const EVERY_MS = 2_000;

export function RequestsScreen() {
  const { value: requests, error, reload } = useLoaded(listRequests, '', EVERY_MS);
  const { dialog, open } = useDialog();
  const cancel = (request: RunningRequest) =>
    open((close) => <CancelRequest request={request} onClose={close} onDone={() => void reload()} />);
  return (
    <Screen
      title="Running requests"
      about={requests === undefined ? '' : `${counted(requests.length, 'request')} now, the oldest first`}
      isBusy={requests === undefined}
    >
      <Alert>{error}</Alert>
      {requests?.length === 0 && (
        <Empty title="Nothing is running">
          Requests that use a project&rsquo;s database, or wait for their turn, appear here while they last. With
          several instances of the service, each shows its own.
        </Empty>
      )}
      {requests !== undefined && requests.length > 0 && <RequestTable requests={requests} onCancel={cancel} />}
      {dialog}
    </Screen>
  );
}

interface RequestTableProps {
  readonly requests: readonly RunningRequest[];
  readonly onCancel: (request: RunningRequest) => void;
}

const RequestTable = ({ requests, onCancel }: RequestTableProps) => (
  <Table
    label="Running requests"
    rows={requests}
    keyOf={({ project, request_id }) => `${project} ${request_id}`}
    columns={[
      {
        title: 'Operation',
        cells: 'mono',
        hint: (request) => request.request_id,
        cell: (request) => request.operation,
      },
      {
        title: 'Project',
        cells: 'is-text',
        cell: ({ project }) => <a href={linkTo('projects', project)}>{project}</a>,
      },
      { title: 'Age', class: 'is-number', cell: (request) => duration(request.duration_ms) },
      {
        title: 'Token',
        cells: 'is-text',
        hint: (request) => request.token_id,
        cell: ({ token_name, token_id }) => token_name ?? token_id,
      },
      { title: 'Address', class: 'wide-only', cells: 'mono', cell: ({ address }) => address },
      actionColumn({
        text: 'Cancel',
        label: ({ operation, project }) => `Cancel ${operation} in ${project}`,
        run: onCancel,
      }),
    ]}
  />
);

interface CancelRequestProps {
  readonly request: RunningRequest;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const CancelRequest = ({ request: { project, request_id, operation }, onClose, onDone }: CancelRequestProps) => (
  <ActionForm
    title="Cancel a request"
    action="Cancel the request"
    keep="Keep it running"
    done="Request canceled"
    isDangerous
    request={cancelRequest(project, request_id)}
    onClose={onClose}
    onDone={onDone}
  >
    <p>
      Postgres stops the <code>{operation}</code> of {project}, and nothing of it is stored. Its caller gets the error{' '}
      <code>query_timeout</code>.
    </p>
  </ActionForm>
);
