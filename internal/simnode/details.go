package simnode

// margin returns the difference between the current temperature and the temperature at which the driver reduces the
// clocks, in °C.
func (b *board) margin() int { return 87 - b.temperature() }

// Reasons for low clocks (nvml.h, nvmlClocksEventReason*). Turing and Ampere GPUs do not report board limit and
// reliability limit.
const (
	reasonIdle            = 0x1
	reasonSlowdown        = 0x8
	reasonHardwareThermal = 0x40
	reasonPowerBrake      = 0x80
	olderReasons          = 0x1ff
	newerReasons          = 0x7ff
)

func (b *board) clockReasons() (bits int) {
	if b.busy == 0 {
		bits |= reasonIdle
	}
	if b.health[ClockReduction] > 0 && b.health[Heat] > 0 {
		bits |= reasonSlowdown | reasonHardwareThermal
	}
	if b.health[ClockReduction] > 0 && b.health[Heat] == 0 {
		bits |= reasonSlowdown | reasonPowerBrake
	}
	return bits
}

// The exporter reads these values with --collector.health.details.
func writeDetails(r *record, w *world, b *board) {
	fields := healthRecord{"gpu", b.UUID}
	for _, clock := range []string{"graphics", "sm"} {
		fields.add("clock_max_"+clock, 1980)
	}
	fields.add("clock_max_memory", memoryClock)
	fields.add("clock_max_video", 1545)
	fields.add("gsp", w.scenario.Driver.Version)
	fields.add("inforom_image", inforomImages[b.Generation])
	fields.add("inforom", 1)
	fields.add("persistence", 1)
	if b.MIG == nil {
		fields.add("compute", 0)
	}
	switch b.Generation {
	case Hopper, Blackwell:
		fields.add("margin", b.margin())
		fields.add("clock_reasons", newerReasons)
	default:
		fields.add("clock_reasons", olderReasons)
	}
	r.line("health", fields...)
	if b.Generation == Blackwell {
		writeC2CLinks(r, b)
	}
}

// inforomImages contains the version of the InfoROM image by generation.
var inforomImages = map[Generation]string{Turing: "G183.0200.00.02", Ampere: "G506.0200.00.04", Hopper: "G520.0200.00.05", Blackwell: "G548.0201.00.06"}

// c2cLinks is the number of NVLink-C2C links between a GPU and the Grace CPU of its board.
const c2cLinks = 10

func writeC2CLinks(r *record, b *board) {
	fields := healthRecord{"gpu", b.UUID}
	fields.field(170, c2cLinks)
	for link := range c2cLinks {
		fields.add(linkKey(171, link), 1)
	}
	r.line("health", fields...)
}

// confidentialComputing returns 0 (off), or nil if the GPUs do not support confidential computing.
func confidentialComputing(boards []*board) any {
	for _, b := range boards {
		if b.AMD == nil && (b.Generation == Hopper || b.Generation == Blackwell) {
			return 0
		}
	}
	return nil
}
