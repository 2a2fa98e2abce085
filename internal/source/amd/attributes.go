package amd

import (
	"encoding/binary"
	"fmt"
)

// Revision 1.9 of gpu_metrics has no fixed layout. The header is followed by the number of attributes (u32). Each
// attribute consists of a code (u64) and its values, without padding. The code contains the unit (bits 24 to 31), the
// type (bits 20 to 23), the id (bits 10 to 19) and the number of values (bits 0 to 9; Linux, smu_cmn.h).

type attribute struct {
	kind, id, count int
}

// Ids of attributes (Linux, enum amdgpu_metrics_attr_id).
const (
	idHotspot     = 0
	idPower       = 3
	idActivity    = 4
	idEnergy      = 7
	idSamples     = 9
	idLimits      = 10 // first of five residencies
	idActivitySum = 20
	idClock       = 33
	idMemoryClock = 37
	idBusySums    = 43
)

func attributeOf(code uint64) attribute {
	return attribute{kind: int(code >> 20 & 0xf), id: int(code >> 10 & 0x3ff), count: int(code & 0x3ff)}
}

// width returns the bytes in one value, or 0 for an unknown type. The types are u8, s8, u16, … s64.
func (a attribute) width() int {
	if a.kind > 7 {
		return 0
	}
	return 1 << (a.kind / 2)
}

func (a attribute) signed() bool { return a.kind%2 == 1 }

func decodeAttributes(file []byte) (metrics, error) {
	var m metrics
	places := map[int]*value{
		idHotspot: &m.hotspot, idPower: &m.power, idActivity: &m.activity, idEnergy: &m.energy,
		idSamples: &m.samples, idActivitySum: &m.activitySum, idClock: &m.clock, idMemoryClock: &m.memory,
	}
	for i := range m.limits {
		places[idLimits+i] = &m.limits[i]
	}
	err := eachAttribute(file, func(a attribute, at int) {
		if v := places[a.id]; v != nil && !a.signed() {
			*v = field{at, a.width()}.read(file)
		}
	})
	if err != nil {
		return metrics{}, fmt.Errorf("decode gpu_metrics: %w", err)
	}
	m.clean()
	return m, nil
}

// The attributes must fill the file exactly.
func eachAttribute(file []byte, visit func(a attribute, at int)) error {
	const first = headerSize + 4
	malformed := func(at int) error { return fmt.Errorf("malformed attribute at byte %d of %d", at, len(file)) }
	if len(file) < first {
		return malformed(0)
	}
	at := first
	for range binary.NativeEndian.Uint32(file[headerSize:]) {
		if at+8 > len(file) {
			return malformed(at)
		}
		a := attributeOf(binary.NativeEndian.Uint64(file[at:]))
		next := at + 8 + a.count*a.width()
		if a.width() == 0 || a.count == 0 || next > len(file) {
			return malformed(at)
		}
		visit(a, at+8)
		at = next
	}
	if at != len(file) {
		return malformed(at)
	}
	return nil
}
