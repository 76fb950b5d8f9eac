/** A plan as a tree, whose innermost steps run first. A bar shows the part of each step in the total. */
import { count, exactDuration } from '../parts/formats.js';
import type { QueryPlan, PlanNode } from './plan.js';

export const PlanView = ({ plan }: { plan: QueryPlan }) => (
  <section class="plan" aria-label="Plan" tabIndex={0}>
    <p class="quiet">
      {plan.isTimed
        ? `Ran in ${exactDuration(plan.total)}. Steps that are further in run first.`
        : `Estimated cost ${count(Math.round(plan.total))}; nothing was run. Steps that are further in run first.`}
    </p>
    <ul>
      <Step node={plan.root} isTimed={plan.isTimed} />
    </ul>
  </section>
);

function Step({ node, isTimed }: { node: PlanNode; isTimed: boolean }) {
  const { title, details, estimatedRows, actualRows, own, share, hints, children } = node;
  const percent = Math.round(share * 100);
  return (
    <li>
      <div class="plan-step">
        <div class="plan-head">
          <strong>{title}</strong>
          <span class="quiet">
            {actualRows === undefined
              ? `about ${count(estimatedRows)} rows`
              : `${count(actualRows)} rows, ${count(estimatedRows)} expected`}
          </span>
          <span class="plan-own">{isTimed ? exactDuration(own) : `${percent} %`}</span>
        </div>
        <meter class="plan-bar" min={0} max={100} value={percent} aria-label={`Share of ${title}`} />
        {details.map((detail) => (
          <code key={detail}>{detail}</code>
        ))}
        {hints.map((hint) => (
          <p key={hint} class="plan-hint">
            {hint}
          </p>
        ))}
      </div>
      {children.length > 0 && (
        <ul>
          {children.map((child, i) => (
            <Step key={i} node={child} isTimed={isTimed} />
          ))}
        </ul>
      )}
    </li>
  );
}
