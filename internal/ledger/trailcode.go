package ledger

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// An encoder writes the intervals of a segment. Numbers are varints, and times are differences to the previous
// interval. Each account name is written only once.
type encoder struct {
	header
	data  []byte
	names map[gpu.AccountKey]uint64
}

// header is the state that must be equal in an encoder and its decoder.
type header struct {
	end    time.Duration // end of the previous interval on the boot clock
	offset int64         // wall clock minus boot clock, in nanoseconds
	power  gpu.IdlePower
}

// nameBytes is the memory of a name in the encoder, including the overhead of the map. It does not include the text of
// the name, because the owner's account contains the same text.
const nameBytes = 256

func newEncoder() *encoder { return &encoder{names: make(map[gpu.AccountKey]uint64)} }

// size returns the memory in bytes.
func (e *encoder) size() int { return nameBytes * len(e.names) }

func (e *encoder) uint(v uint64)   { e.data = binary.AppendUvarint(e.data, v) }
func (e *encoder) int(v int64)     { e.data = binary.AppendVarint(e.data, v) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.data = append(e.data, s...) }

// float writes the bytes of a number in reverse order. Round numbers end with zero bits, so they become short varints.
func (e *encoder) float(v float64) { e.uint(bits.ReverseBytes64(math.Float64bits(v))) }

func (e *encoder) flags(flags ...bool) {
	var v uint64
	for i, set := range flags {
		if set {
			v |= 1 << i
		}
	}
	e.uint(v)
}

func (e *encoder) interval(to []byte, iv *gpu.Interval) []byte {
	e.data = to
	e.flags(iv.Late, iv.Gap, iv.Listed, iv.Allocated, iv.AtRest, iv.IdlePower != e.power)
	e.instant(iv.From)
	e.instant(iv.To)
	e.int(int64(iv.Energy))
	e.uint(uint64(iv.BusySource))
	if iv.BusySource != gpu.BusyUnknown {
		e.float(iv.Busy)
	}
	if iv.IdlePower != e.power {
		e.power = iv.IdlePower
		e.uint(uint64(e.power.Source))
		e.float(float64(e.power.Power))
	}
	e.amounts(iv.Unattributed[:])
	e.uint(uint64(len(iv.Parts)))
	for i := range iv.Parts {
		e.part(&iv.Parts[i])
	}
	e.uint(uint64(len(iv.Charges)))
	for i := range iv.Charges {
		e.charge(&iv.Charges[i])
	}
	return e.data
}

func (e *encoder) instant(i gpu.Instant) {
	offset := i.Wall.UnixNano() - int64(i.Boot)
	e.int(int64(i.Boot - e.end))
	e.int(offset - e.offset)
	e.end, e.offset = i.Boot, offset
}

// amounts first writes a bit mask, because most energies in the list are zero.
func (e *encoder) amounts(list []gpu.Millijoules) {
	var set uint64
	for i, amount := range list {
		if amount != 0 {
			set |= 1 << i
		}
	}
	e.uint(set)
	for _, amount := range list {
		if amount != 0 {
			e.int(int64(amount))
		}
	}
}

func (e *encoder) part(p *gpu.IntervalPart) {
	e.string(p.Instance)
	e.flags(p.Held)
	e.uint(uint64(p.Slices))
	e.int(int64(p.Active))
	e.int(int64(p.Idle))
	e.int(int64(p.Busy))
}

func (e *encoder) charge(c *gpu.Charge) {
	e.key(c.AccountKey)
	e.flags(c.Vanished)
	e.float(c.Holding)
	e.int(int64(c.Activity))
	e.int(int64(c.Served))
	e.amounts(c.Energy[:])
	e.int(int64(c.Idle))
}

// key writes the number of a name. At the first use of the name, it also writes the name.
func (e *encoder) key(k gpu.AccountKey) {
	n, known := e.names[k]
	if known {
		e.uint(n)
		return
	}
	n = uint64(len(e.names))
	e.names[k] = n
	e.uint(n)
	e.uint(uint64(k.Kind))
	for _, s := range []string{k.GPUInstance, k.Scope, k.Name, k.UID, k.Part} {
		e.string(s)
	}
}

// A decoder reads a segment. It does not check for errors, because an encoder in the same process wrote the segment.
type decoder struct {
	header
	data  []byte
	names []gpu.AccountKey
}

func newDecoder(data []byte) *decoder { return &decoder{data: data} }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.data)
	d.data = d.data[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.data)
	d.data = d.data[n:]
	return v
}

func (d *decoder) string() string {
	n := d.uint()
	s := string(d.data[:n])
	d.data = d.data[n:]
	return s
}

func (d *decoder) float() float64 { return math.Float64frombits(bits.ReverseBytes64(d.uint())) }

func (d *decoder) flags(flags ...*bool) {
	v := d.uint()
	for i, set := range flags {
		*set = v>>i&1 == 1
	}
}

func (d *decoder) interval() gpu.Interval {
	var iv gpu.Interval
	var newPower bool
	d.flags(&iv.Late, &iv.Gap, &iv.Listed, &iv.Allocated, &iv.AtRest, &newPower)
	iv.From, iv.To = d.instant(), d.instant()
	iv.Energy = gpu.Millijoules(d.int())
	if iv.BusySource = gpu.BusySource(d.uint()); iv.BusySource != gpu.BusyUnknown {
		iv.Busy = d.float()
	}
	if newPower {
		d.power.Source = gpu.IdleSource(d.uint())
		d.power.Power = gpu.Watts(d.float())
	}
	iv.IdlePower = d.power
	d.amounts(iv.Unattributed[:])
	if n := d.uint(); n > 0 {
		iv.Parts = make([]gpu.IntervalPart, n)
	}
	for i := range iv.Parts {
		d.part(&iv.Parts[i])
	}
	if n := d.uint(); n > 0 {
		iv.Charges = make([]gpu.Charge, n)
	}
	for i := range iv.Charges {
		d.charge(&iv.Charges[i])
	}
	return iv
}

func (d *decoder) instant() gpu.Instant {
	d.end += time.Duration(d.int())
	d.offset += d.int()
	return gpu.Instant{Wall: time.Unix(0, int64(d.end)+d.offset).UTC(), Boot: d.end}
}

func (d *decoder) amounts(list []gpu.Millijoules) {
	set := d.uint()
	for i := range list {
		if set>>i&1 == 1 {
			list[i] = gpu.Millijoules(d.int())
		}
	}
}

func (d *decoder) part(p *gpu.IntervalPart) {
	p.Instance = d.string()
	d.flags(&p.Held)
	p.Slices = int(d.uint())
	p.Active = time.Duration(d.int())
	p.Idle, p.Busy = gpu.Millijoules(d.int()), gpu.Millijoules(d.int())
}

func (d *decoder) charge(c *gpu.Charge) {
	c.AccountKey = d.key()
	d.flags(&c.Vanished)
	c.Holding = d.float()
	c.Activity, c.Served = time.Duration(d.int()), time.Duration(d.int())
	d.amounts(c.Energy[:])
	c.Idle = gpu.Millijoules(d.int())
}

func (d *decoder) key() gpu.AccountKey {
	n := d.uint()
	if n < uint64(len(d.names)) {
		return d.names[n]
	}
	var k gpu.AccountKey
	k.Kind = gpu.OwnerKind(d.uint())
	for _, s := range []*string{&k.GPUInstance, &k.Scope, &k.Name, &k.UID, &k.Part} {
		*s = d.string()
	}
	d.names = append(d.names, k)
	return k
}
