package archive

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// raw returns one sample every interval seconds, starting phase seconds after the start of an hour.
func raw(interval, phase int) (samples []fold.Sample) {
	for at := phase; at < 3600; at += interval {
		samples = append(samples, fold.Sample{Time: noon.Add(time.Duration(at)*time.Second + 13*time.Millisecond).UnixMilli()})
	}
	return samples
}

// downsampled follows Thanos's documentation. Each window has one sample, with the time of the window's last
// millisecond. A chunk of a counter also contains its first raw sample.
func downsampled(samples []fold.Sample, window time.Duration) (few []fold.Sample) {
	few = append(few, samples[0])
	for _, x := range samples {
		end := time.UnixMilli(x.Time).Truncate(window).Add(window - time.Millisecond).UnixMilli()
		if few[len(few)-1].Time != end {
			few = append(few, fold.Sample{Time: end})
		}
	}
	return few
}

func without(samples []fold.Sample, from, until int) []fold.Sample {
	return append(append([]fold.Sample{}, samples[:from]...), samples[until:]...)
}

func last(samples []fold.Sample, window time.Duration) (few []fold.Sample) {
	for i, x := range samples {
		if i+1 == len(samples) || !time.UnixMilli(samples[i+1].Time).Truncate(window).Equal(time.UnixMilli(x.Time).Truncate(window)) {
			few = append(few, x)
		}
	}
	return few
}

func TestSpacing(t *testing.T) {
	minute, five := raw(60, 17), raw(300, 17)
	tests := []struct {
		name   string
		series [][]fold.Sample
		up     []fold.Sample // times of successful scrapes
		want   bool
	}{
		{"raw every minute", [][]fold.Sample{minute, minute}, minute, false},
		{"raw every five minutes", [][]fold.Sample{five, five, five[7:8], five[3:5]}, five, false},
		{"raw every ten minutes", [][]fold.Sample{raw(600, 599)}, raw(600, 599), false},
		{"raw every half hour", [][]fold.Sample{raw(1800, 17)}, raw(1800, 17), false},
		{"without up", [][]fold.Sample{five, five}, nil, false},
		{"most scrapes fail", [][]fold.Sample{without(minute, 3, 50)}, without(minute, 3, 50), false},
		{"every second scrape of five minutes fails", [][]fold.Sample{raw(600, 17)}, raw(600, 17), false},
		{"short pods beside a board", [][]fold.Sample{minute, minute[3:4], minute[9:11]}, minute, false},
		{"another interval after the middle", [][]fold.Sample{append(five[:6:6], minute[30:]...), five[:6], minute[30:]}, append(five[:6:6], minute[30:]...), false},
		{"a phase like the end of a window", [][]fold.Sample{{{Time: noon.UnixMilli() + 299_999}, {Time: noon.UnixMilli() + 359_999}}}, nil, false},
		{"downsampled to five minutes", [][]fold.Sample{downsampled(minute, 5*time.Minute)}, nil, true},
		{"downsampled to five minutes, including up", [][]fold.Sample{downsampled(minute, 5*time.Minute)}, downsampled(minute, 5*time.Minute), true},
		{"downsampled to one hour", [][]fold.Sample{downsampled(minute, time.Hour)[1:], downsampled(minute[5:6], time.Hour)[1:]}, nil, true},
		{"one downsampled series of many", [][]fold.Sample{minute, minute, minute, downsampled(minute, 5*time.Minute)}, minute, true},
		{"half an hour is downsampled", [][]fold.Sample{append(downsampled(minute[:30], 5*time.Minute), minute[30:]...)}, minute, true},
		{"55 long and 60 short distances", [][]fold.Sample{last(minute, 5*time.Minute), last(minute, 5*time.Minute), last(minute, 5*time.Minute), last(minute, 5*time.Minute), last(minute, 5*time.Minute), minute}, nil, true},
		{"fewer samples than scrapes", [][]fold.Sample{last(minute, 5*time.Minute), last(minute, 5*time.Minute)}, minute, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCoverage()
			for _, samples := range tt.series {
				c.add([]fold.Series{{Labels: fold.Labels{{Name: "node", Value: "a"}}, Samples: samples}})
			}
			var scrapes []int64
			for _, x := range tt.up {
				scrapes = append(scrapes, x.Time)
			}
			c.scrapes = map[string][][]int64{"a": {scrapes[:0:0], scrapes}}
			c.start, c.now, c.sampledAfter = noon, noon.Add(2*time.Hour), true
			if _, err := c.check(); (err != nil) != tt.want {
				t.Errorf("error %v, want one: %t", err, tt.want)
			}
		})
	}
}
