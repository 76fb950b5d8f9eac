/** Whether a project accepts requests. As text, because color alone is not accessible to everyone. */
export const Status = ({ status }: { status: string }) => (
  <span class="status" data-status={status}>
    {status}
  </span>
);
