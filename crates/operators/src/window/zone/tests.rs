use streamfusion_plan::node::ShiftZone;
use streamfusion_plan::zone::ZoneRules;

use super::WindowZone;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Written by Flink: see `ZoneRulesTextTest`.
const EXPECTED: &str = include_str!("../../../tests/data/zones.txt");

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn zone(id: &str) -> Result<WindowZone, Box<dyn std::error::Error>> {
    let prefix = format!("{id}|");
    let rules = EXPECTED.lines().find(|line| line.starts_with(&prefix)).ok_or("no such zone")?;
    Ok(WindowZone::new(&ShiftZone::Zone(ZoneRules::read(rules).map_err(|reason| reason.to_string())?)))
}

/// One sum per function, as `ZoneRulesTextTest` has them.
struct Sums<'a> {
    zone: &'a WindowZone,
    sums: [i64; 4],
}

impl<'a> Sums<'a> {
    fn new(zone: &'a WindowZone) -> Self {
        Self { zone, sums: [0xcbf2_9ce4_8422_2325_u64.cast_signed(); 4] }
    }

    fn around(&mut self, transition: i64) {
        let local = self.zone.to_utc_timestamp_millis(transition * 1_000 - 1) + 1;
        for quarter in -14..=14 {
            for millis in -1..=1 {
                let distance = quarter * 900_000 + millis;
                self.add(transition * 1_000 + distance, local + distance);
            }
        }
    }

    fn add(&mut self, instant: i64, local: i64) {
        let zone = self.zone;
        self.mix(0, zone.to_utc_timestamp_millis(instant));
        self.mix(1, zone.to_epoch_millis_for_timer(local));
        self.mix(1, i64::from(zone.is_window_fired(local, instant)));
        self.mix(2, zone.to_epoch_millis(local));
        self.mix(3, zone.next_trigger_watermark(instant, HOUR));
        self.mix(3, zone.next_trigger_watermark(instant, DAY));
    }

    fn mix(&mut self, function: usize, value: i64) {
        self.sums[function] = (self.sums[function] ^ value).wrapping_mul(0x100_0000_01b3);
    }

    fn text(&self) -> String {
        self.sums.map(|sum| format!("{sum:x}")).join(",")
    }
}

#[test]
fn flinks_functions_come_to_the_same_from_0001_to_9999() -> TestResult {
    let lines: Vec<&str> = EXPECTED.lines().collect();
    assert!(lines.len() >= 4 * 15);
    for case in lines.chunks(4) {
        let [rules, transitions, near, far] = case else { return Err("a case has four lines".into()) };
        let rules = ZoneRules::read(rules).map_err(|reason| reason.to_string())?;
        let zone = WindowZone::new(&ShiftZone::Zone(rules.clone()));
        let mut sums = Sums::new(&zone);
        for transition in transitions.split(',').filter(|text| !text.is_empty()) {
            sums.around(transition.parse()?);
        }
        assert_eq!(&sums.text(), near, "around the transitions of {}", rules.id());
        let (first, last) = (-62_135_596_800_000_i64, 253_402_300_799_999_i64);
        let mut random = 42_i64;
        let mut sums = Sums::new(&zone);
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let millis = first + ((random.cast_unsigned() >> 1).cast_signed()) % (last - first);
            sums.add(millis, millis);
        }
        assert_eq!(&sums.text(), far, "random times in {}", rules.id());
    }
    Ok(())
}

#[test]
fn a_skipped_hour_is_due_when_it_is_skipped_and_one_that_comes_twice_the_second_time() -> TestResult {
    let zone = zone("America/Los_Angeles")?;
    // 2021-03-14 02:00 does not exist, 2021-11-07 01:00 comes twice
    let (gap, overlap) = (1_615_687_200_000_i64, 1_636_246_800_000_i64);
    assert_eq!(zone.to_epoch_millis_for_timer(gap), 1_615_716_000_000);
    assert_eq!(zone.to_epoch_millis_for_timer(gap + HOUR - 1), 1_615_716_000_000);
    assert_eq!(zone.to_epoch_millis_for_timer(gap + HOUR), 1_615_716_000_000);
    assert_eq!(zone.to_epoch_millis(gap + HOUR / 2), 1_615_716_000_000 + HOUR / 2);
    assert_eq!(zone.to_epoch_millis_for_timer(overlap), 1_636_272_000_000 + HOUR);
    assert_eq!(zone.to_epoch_millis(overlap), 1_636_272_000_000);
    assert_eq!(zone.to_utc_timestamp_millis(1_636_272_000_000), overlap);
    assert_eq!(zone.to_utc_timestamp_millis(1_636_272_000_000 + HOUR), overlap);
    Ok(())
}

#[test]
fn many_instants_are_shifted_as_one_is() -> TestResult {
    for id in ["America/Los_Angeles", "Pacific/Apia", "+05:30"] {
        let zone = zone(id)?;
        let instants: Vec<i64> =
            (-3_000..3_000).map(|n| n * 7 * DAY + n * 1_234_567).chain([i64::MAX, i64::MIN]).collect();
        let mut shifted = instants.clone();
        zone.shift_all(&mut shifted);
        let expected: Vec<i64> = instants.iter().map(|instant| zone.to_utc_timestamp_millis(*instant)).collect();
        assert_eq!(shifted, expected);
    }
    Ok(())
}

#[test]
fn the_last_watermark_is_never_shifted() -> TestResult {
    let zone = zone("Asia/Shanghai")?;
    assert_eq!(zone.to_utc_timestamp_millis(i64::MAX), i64::MAX);
    assert_eq!(zone.to_epoch_millis_for_timer(i64::MAX), i64::MAX);
    assert_eq!(zone.next_trigger_watermark(i64::MAX, DAY), i64::MAX);
    assert!(!zone.is_window_fired(i64::MAX, i64::MAX));
    Ok(())
}
