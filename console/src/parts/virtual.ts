/** The visible part of a long list, by @tanstack/virtual-core. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useState } from 'preact/hooks';

type Chosen = Pick<VirtualizerOptions<HTMLElement, HTMLElement>, 'count' | 'estimateSize'> &
  Partial<Pick<VirtualizerOptions<HTMLElement, HTMLElement>, 'horizontal' | 'scrollPaddingStart' | 'paddingStart'>>;

export function useVirtual(
  scroller: RefObject<HTMLElement | null>,
  chosen: Chosen,
): Virtualizer<HTMLElement, HTMLElement> {
  const [, render] = useReducer((n: number) => n + 1, 0);
  const options: VirtualizerOptions<HTMLElement, HTMLElement> = {
    overscan: 8,
    ...chosen,
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => render(undefined),
  };
  const [virtualizer] = useState(() => new Virtualizer(options));
  virtualizer.setOptions(options);
  useEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());
  return virtualizer;
}
