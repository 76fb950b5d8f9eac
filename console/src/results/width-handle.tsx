/** The edge of a column's title. Dragging it changes the width; a double click restores the suggested width. */
interface WidthHandleProps {
  readonly width: number;
  readonly onResize: (width: number | undefined) => void;
}

/** Only for the pointer; the grid has keys for this. */
export const WidthHandle = ({ width, onResize }: WidthHandleProps) => (
  <div
    class="grid-handle"
    aria-hidden="true"
    onPointerDown={(event) => {
      const handle = event.currentTarget;
      const start = event.clientX;
      const drag = ({ clientX }: PointerEvent) => onResize(width + clientX - start);
      handle.setPointerCapture(event.pointerId);
      handle.addEventListener('pointermove', drag);
      handle.addEventListener('lostpointercapture', () => handle.removeEventListener('pointermove', drag), {
        once: true,
      });
      event.preventDefault();
    }}
    onDblClick={() => onResize(undefined)}
  />
);
