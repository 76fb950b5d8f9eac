/** An integer of 64 bits in two's complement, as its halves, made without BigInt. */
const TWO_16 = 2 ** 16;

export class Int64 {
  high = 0;
  /** Modulo 2³². */
  low = 0;

  /** @param value an int32 */
  setInt32(value: number): void {
    this.high = value >> 31;
    this.low = value;
  }

  /**
   * `a` × `factor` + `b`, every step exact in a double by the 16 bits it is about.
   * @param a below 2³⁸ either way
   * @param factor up to 10¹⁰ where `a` is below 10⁹, else up to 10⁶
   * @param b not negative, up to 10¹⁰
   */
  setProduct(a: number, factor: number, b: number): void {
    const aUpper = Math.floor(a / TWO_16);
    const lower = (a - aUpper * TWO_16) * factor + b;
    const carry = Math.floor(lower / TWO_16);
    const upper = aUpper * factor + carry;
    this.high = Math.floor(upper / TWO_16);
    this.low = (upper - this.high * TWO_16) * TWO_16 + (lower - carry * TWO_16);
  }

  negate(): void {
    this.low = -this.low | 0;
    this.high = this.low === 0 ? -this.high | 0 : ~this.high;
  }
}
