package worlds

import "time"

// Late returns counters of 100 W that started while they were not scraped. Some nodes join late, or are not scraped for
// more than a day. Others reboot while nothing is scraped, or reboot again soon after such a reboot. Some GPUs have no
// serial number at first.
func Late() *History {
	const (
		end = 32 * time.Hour
		old = 10 * Daily
	)
	hm := func(hours, minutes time.Duration) time.Duration { return hours*time.Hour + minutes*time.Minute }
	h := New(time.Minute)
	// put adds a pod that has the given age at its first sample, and a board of the same age. If the age is nil, the
	// counters continue earlier counters with other labels.
	put := func(name, serial string, from, to time.Duration, age *time.Duration, counted time.Duration) {
		gpu := map[string]string{"node": name, "UUID": "GPU-" + name, "serial": serial}
		pod := With(gpu, "namespace", name, "pod", name, "pod_uid", "u-"+name)
		h.Constant(Series(Placement, With(gpu, "model", "H100", "system_uuid", "machine-"+name)), from, to, 1)
		h.Linear(Series(BoardEnergy, gpu), from, to, 100*counted.Seconds(), 100)
		h.Linear(Series(AllocationEnergy, pod), from, to, 100*counted.Seconds(), 100)
		if age != nil {
			h.Constant(Series(CreatedOf(BoardEnergy), gpu), from, to, (from - *age).Seconds())
			h.Constant(Series(CreatedOf(AllocationEnergy), pod), from, to, (from - *age).Seconds())
		}
	}
	aged := func(name, serial string, from, to, age time.Duration) { put(name, serial, from, to, &age, age) }
	aged("new", "S1", hm(3, 10), end, time.Minute)
	aged("joined", "S2", hm(3, 10), end, old)
	aged("unseen", "S3", 0, hm(2, 0), old)
	aged("unseen", "S3", hm(27, 10), end, old+hm(27, 10))
	aged("rebooted", "S4", 0, hm(8, 0), old)
	aged("rebooted", "S4", hm(10, 30), end, time.Hour)
	aged("twice", "S7", 0, hm(8, 0), old)
	aged("twice", "S7", hm(10, 30), hm(10, 45), time.Minute)
	aged("twice", "S7", hm(10, 45), end, 0)
	aged("renamed", "", 0, hm(5, 0), old)
	put("renamed", "S5", hm(5, 0), end, nil, old+hm(5, 0))
	aged("young", "", hm(4, 0), hm(5, 0), 0)
	put("young", "S6", hm(5, 0), end, nil, time.Hour)
	return h
}
