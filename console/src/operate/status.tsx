/** Whether a project serves requests; in words, since colours alone say nothing to some. */
export const Status = ({ status }: { status: string }) => (
  <span class="status" data-status={status}>
    {status}
  </span>
);
