/** Steps that close what was opened, in reverse order. */
export class Closing {
  private readonly steps: (() => Promise<unknown>)[] = [];
  private running: Promise<void> | null = null;

  add(step: () => Promise<unknown>): void {
    this.steps.push(step);
  }

  /**
   * Takes all steps, even if some fail. A second call waits for the first.
   * @throws the first error
   */
  run(): Promise<void> {
    return (this.running ??= this.takeSteps());
  }

  private async takeSteps(): Promise<void> {
    const errors: unknown[] = [];
    for (const step of this.steps.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
