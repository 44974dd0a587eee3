//! Pure: the forms in which the chat channel writes one phone of one person.
//!
//! Some countries lengthened their numbers after people had joined the channel. The channel knows
//! such a person by one form and accepts the other one too. So `551187654321` may answer a message
//! to `+5511987654321`. One form represents both: here it is the canonical one.
//!
//! A row needs a source that says that the channel itself uses both forms. Countries whose numbers
//! grew without such a source, such as Benin in 2024, have none. No row unifies two numbers that
//! different people can have.

/// Numbers of one country in a form that is not the canonical one.
struct NationalForm {
    /// The first and the last number of the range, as integers.
    range: (u64, u64),
    /// The canonical form of a number of the range; the number itself if it has no other.
    canonical: fn(u64) -> u64,
}

/// Every form that is not canonical. The ranges do not overlap, and no canonical form is in one.
const FORMS: [NationalForm; 5] = [
    // Côte d'Ivoire: eight digits until 31 January 2021, then ten (ITU-T E.129 communication of
    // ARTCI, T02020000310006). The channel knows people who joined before by the eight digits, and
    // both reach them: github.com/devlikeapro/waha/issues/1894 and support.whapi.cloud, "Specifics
    // of sending messages to numbers of different countries" (African countries).
    NationalForm { range: (22_501_000_000, 22_598_999_999), canonical: of_ivory_coast },
    // Argentina: the channel reports `549`; callers write and its API accepts `54`:
    // waha.devlike.pro/docs/apps/phone-numbers-argentina, github.com/chatwoot/chatwoot/pull/14264.
    // Fixed and mobile lines share the blocks of an area (Resolución S.C. 1154/98), so the digits
    // after the `9` are one subscriber's. Area codes start with 11, 2 or 3.
    NationalForm {
        range: (541_100_000_000, 543_999_999_999),
        canonical: |it| it + 4_950_000_000_000,
    },
    // Brazil: the ninth digit of mobile numbers came in 2012 to 2016. The channel writes people who
    // joined before without it, mostly outside of the areas 11-19, 21, 22, 24, 27 and 28. It was
    // not always so there: support.gupshup.io/hc/en-us/articles/4407840924953,
    // github.com/chatwoot/chatwoot/pull/14657, github.com/wwebjs/whatsapp-web.js/issues/596.
    NationalForm { range: (551_160_000_000, 559_999_999_999), canonical: of_brazil },
    // Mexico: the channel writes `521`; since 3 August 2019 the `1` is not dialled:
    // support.gupshup.io/hc/en-us/articles/4407840924953, github.com/chatwoot/chatwoot/pull/14174,
    // faq.whatsapp.com/640432094208718. Fixed lines are in the same plan of ten digits.
    NationalForm {
        range: (5_212_000_000_000, 5_219_999_999_999),
        canonical: |it| it - 4_690_000_000_000,
    },
    // Argentina, as dialled within the country: `15` after the area code, and no `9`. The channel's
    // list of phones for tests has this form, and the channel reports them with the `9`:
    // github.com/Excelencia-Digital-Soft/aynux-ai-platform, app/utils/readme.md. Both are the same:
    // support.whapi.cloud as above. No other number of the country has as many digits.
    NationalForm {
        range: (54_111_500_000_000, 54_399_999_999_999),
        canonical: of_argentina_with_15,
    },
];

/// Returns the form that represents all forms of a phone. Phones are the integers of their digits.
#[must_use]
pub fn canonical(digits: u64) -> u64 {
    let is_in = |form: &&NationalForm| form.range.0 <= digits && digits <= form.range.1;
    FORMS.iter().find(is_in).map_or(digits, |form| (form.canonical)(digits))
}

/// The other forms of a canonical phone. The form that the channel uses comes first.
pub(crate) fn others(canonical_digits: u64) -> impl Iterator<Item = u64> {
    let all = of_channel(canonical_digits).into_iter().chain(with_15(canonical_digits));
    all.filter(move |other| *other != canonical_digits && canonical(*other) == canonical_digits)
}

fn of_channel(canonical_digits: u64) -> Option<u64> {
    let other = match canonical_digits {
        // 55, the area, a 9 and eight digits.
        5_511_960_000_000..=5_599_999_999_999 => {
            let (area, local) = split(canonical_digits, 1_000_000_000);
            area * 100_000_000 + local % 100_000_000
        }
        // 52 and ten digits.
        522_000_000_000..=529_999_999_999 => canonical_digits + 4_690_000_000_000,
        // 549 and ten digits.
        5_491_100_000_000..=5_493_999_999_999 => canonical_digits - 4_950_000_000_000,
        // 225, two digits of the operator, and eight.
        2_250_100_000_000..=2_250_799_999_999 => 22_500_000_000 + canonical_digits % 100_000_000,
        _ => return None,
    };
    Some(other)
}

/// The forms in which Argentina dials a number of `549` and ten digits. The digits do not show
/// where the area ends, so an area of three digits and one of four have a form each.
fn with_15(canonical_digits: u64) -> impl Iterator<Item = u64> {
    let national = canonical_digits.checked_sub(5_490_000_000_000);
    let national = national.filter(|it| (1_100_000_000..=3_999_999_999).contains(it));
    let behind_area = [100_000_000, 10_000_000, 1_000_000];
    national.into_iter().flat_map(move |national| {
        behind_area.map(|behind| {
            let (area, subscriber) = split(national, behind);
            54_000_000_000_000 + area * behind * 100 + 15 * behind + subscriber
        })
    })
}

/// Splits a number into the part before its last digits, and its last digits.
const fn split(digits: u64, last: u64) -> (u64, u64) {
    (digits / last, digits % last)
}

/// Returns the canonical form of `55`, the area and eight digits. Mobile numbers started with 6 to
/// 9; fixed lines start with 2 to 5, and no area has a zero.
const fn of_brazil(digits: u64) -> u64 {
    let (area, local) = split(digits, 100_000_000);
    if area % 10 == 0 || local < 60_000_000 {
        return digits;
    }
    area * 1_000_000_000 + 900_000_000 + local
}

/// Returns the canonical form of a number dialled with `15`. It is `54`, an area of two, three or
/// four digits, `15`, and the rest of ten digits. At most one place has the `15`: a digit is not
/// both its end and its start.
const fn of_argentina_with_15(digits: u64) -> u64 {
    const COUNTRY: u64 = 54_000_000_000_000;
    let national = digits - COUNTRY;
    // Eight, seven or six digits behind the area.
    let local = match national {
        111_500_000_000..=111_599_999_999 => 100_000_000,
        200_000_000_000..=399_999_999_999 if national / 10_000_000 % 100 == 15 => 10_000_000,
        200_000_000_000..=399_999_999_999 if national / 1_000_000 % 100 == 15 => 1_000_000,
        _ => return digits,
    };
    let (area, subscriber) = (national / (local * 100), national % local);
    5_490_000_000_000 + area * local + subscriber
}

/// Returns the canonical form of `225` and a mobile number's eight digits. They start with its
/// operator.
const fn of_ivory_coast(digits: u64) -> u64 {
    let national = digits - 22_500_000_000;
    let operator = match national / 1_000_000 {
        1..=3 | 40..=43 | 50..=53 | 70..=73 => 1,
        4..=6 | 44..=46 | 54..=56 | 64..=66 | 74..=76 | 84..=86 | 94..=96 => 5,
        7..=9 | 47..=49 | 57..=59 | 67..=69 | 77..=79 | 87..=89 | 97 | 98 => 7,
        _ => return digits,
    };
    2_250_000_000_000 + operator * 100_000_000 + national
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each country's forms of one phone, the canonical one first.
    const ONE: [(u64, u64); 12] = [
        (5_511_987_654_321, 551_187_654_321),
        (5_592_981_723_241, 559_281_723_241),
        (5_531_996_883_193, 553_196_883_193),
        (525_639_691_841, 5_215_639_691_841),
        (528_112_345_678, 5_218_112_345_678),
        (5_491_158_749_895, 541_158_749_895),
        (5_492_644_472_542, 542_644_472_542),
        (5_491_158_749_895, 54_111_558_749_895),
        (5_492_644_472_542, 54_264_154_472_542),
        (5_492_901_415_151, 54_290_115_415_151),
        (2_250_545_123_456, 22_545_123_456),
        (2_250_101_234_567, 22_501_234_567),
    ];

    /// Numbers of these countries, and of others, that have one form alone.
    const ALONE: [u64; 22] = [
        // Brazil: fixed lines, with and without an apparent ninth digit; 0800; no area.
        551_133_334_444,
        551_157_654_321,
        5_511_933_334_444,
        558_000_464_636,
        551_087_654_321,
        5_511_887_654_321,
        // Mexico: too short or too long after the 1, and no such area.
        521_551_234_567,
        5_211_512_345_678,
        52_155_123_456_789,
        // Argentina: freephone, no such area, and twelve digits without a 15.
        548_001_234_567,
        5_498_001_234_567,
        54_264_164_472_542,
        54_151_512_345_678,
        // Côte d'Ivoire: fixed lines, and series without subscribers.
        22_520_212_345,
        22_530_612_345,
        22_599_123_456,
        22_560_123_456,
        // Benin, whose numbers grew; the channel's forms are not known.
        22_997_123_456,
        // Others.
        15_550_123_456,
        4_915_112_345_678,
        2_348_012_345_678,
        999_999_999_999_999,
    ];

    #[test]
    fn the_forms_of_one_phone_have_one_canonical_form() {
        for (first, second) in ONE {
            assert_eq!((canonical(first), canonical(second)), (first, first), "{second}");
        }
        for (first, second) in ONE {
            assert!(others(first).any(|other| other == second), "{second}");
        }
        for alone in ALONE {
            assert_eq!((canonical(alone), others(alone).count()), (alone, 0), "{alone}");
        }
        let all = |digits| others(digits).collect::<Vec<_>>();
        assert_eq!(all(5_491_158_749_895), [541_158_749_895, 54_111_558_749_895]);
        let third = [542_644_472_542, 54_264_154_472_542, 54_264_415_472_542];
        assert_eq!(all(5_492_644_472_542), third);
    }

    #[test]
    fn the_ranges_are_sorted_and_do_not_overlap() {
        assert!(FORMS.iter().all(|form| form.range.0 <= form.range.1));
        assert!(FORMS.windows(2).all(|pair| pair[0].range.1 < pair[1].range.0));
    }

    /// Returns a number of one of the countries, of any length up to 15 digits, or any number at
    /// all.
    fn number(bits: u64) -> u64 {
        let begin = [52, 521, 54, 549, 55, 225, 1, 229][bits as usize % 8];
        let (digits, rest) = (bits / 8 % 14, bits / 112);
        let behind = 10_u64.pow(digits as u32);
        (begin * behind + rest % behind) % 1_000_000_000_000_000
    }

    #[test]
    fn a_canonical_form_stays_so_and_is_of_the_same_country() {
        bolero::check!().with_iterations(20_000).with_type::<u64>().for_each(|bits| {
            for digits in [number(*bits), bits % 1_000_000_000_000_000] {
                let form = canonical(digits);
                assert_eq!(canonical(form), form, "{digits}");
                let (text, form_text) = (digits.to_string(), form.to_string());
                let country = ["52", "54", "55", "225"].iter().find(|it| text.starts_with(**it));
                match country {
                    Some(country) => assert!(form_text.starts_with(*country), "{digits}"),
                    None => assert_eq!(form, digits),
                }
                // Each form of a phone has the same last digits.
                assert_eq!(digits % 1_000_000, form % 1_000_000, "{digits}");
                assert!(digits == form || others(form).any(|other| other == digits), "{digits}");
            }
        });
    }
}
