// An ESP32 with an MPU-6050 that sends 50 samples a second as codec `compact`, numbered, on wearables/<DEVICE>/imu. It keeps
// the last two minutes of messages until the detector says that it has them, and sends them again where it does not.
//
// Boards: esp32; libraries: PubSubClient. In the detector's configuration:
//   inputs: [{pattern: "wearables/{device}/imu", codec: compact, resends: true}]

#include <Preferences.h>
#include <PubSubClient.h>
#include <WiFi.h>
#include <Wire.h>
#include <sys/time.h>

#include "stream_occ_compact.h"

// #define USE_TLS  // in every network that is not yours alone: else anybody in it reads the password and what is sent

const char* SSID = "change-me";
const char* PASSPHRASE = "change-me";
#ifdef USE_TLS
#include <WiFiClientSecure.h>
const char* BROKER = "broker.lan";  // as in the broker's certificate: its name is checked, and so are its dates
const uint16_t PORT = 8883;
const char* CA = R"(-----BEGIN CERTIFICATE-----
change-me: the authority that signed it, /etc/mosquitto/certs/ca.pem
-----END CERTIFICATE-----
)";
#else
const char* BROKER = "192.168.1.10";
const uint16_t PORT = 1883;
#endif
const char* DEVICE = "w1";
const char* USER = "w1";  // the device id: configs/mosquitto.acl lets each user write to its own topics alone
const char* PASSWORD = "change-me";
const char* TOPIC = "wearables/w1/imu";
const char* RECEIVED_UP_TO = "stream_occ/w1/received_up_to";

const uint8_t MPU = 0x68;
const uint32_t PERIOD_US = 20000;                            // 50 Hz
const int SAMPLES = 12;                                      // a message about every quarter of a second, 182 bytes
const float ACC_SCALE = 9.80665f / 2048.0f;                  // +-16 g: falls reach more than the 2 g of power-on
const float GYR_SCALE = 3.14159265f / 180.0f / 16.4f;        // +-2000 degrees a second

const int KEPT = 480;                                        // messages: two minutes, 87 kB
const uint32_t RETRY_MS = 5000;                              // a try to connect can take a second without samples

#ifdef USE_TLS
WiFiClientSecure network;
#else
WiFiClient network;
#endif
PubSubClient mqtt(network);
uint8_t buffer[stream_occ::message_bytes(SAMPLES)];
stream_occ::CompactWriter message(buffer, sizeof buffer);
stream_occ::ResendRing<KEPT, stream_occ::message_bytes(SAMPLES)> kept;
uint32_t boot_number, next_us, tried_ms = 0;

void write_register(uint8_t address, uint8_t value) {
  Wire.beginTransmission(MPU);
  Wire.write(address);
  Wire.write(value);
  Wire.endTransmission();
}

int16_t read_word() {
  const uint8_t high = Wire.read();
  return static_cast<int16_t>(high << 8 | static_cast<uint8_t>(Wire.read()));
}

bool read_sample(int16_t acc[3], int16_t gyr[3]) {
  Wire.beginTransmission(MPU);
  Wire.write(0x3B);  // acceleration, temperature, rotation: 14 bytes, high byte first
  Wire.endTransmission(false);
  if (Wire.requestFrom(MPU, static_cast<uint8_t>(14)) != 14) return false;
  for (int i = 0; i < 3; ++i) acc[i] = read_word();
  read_word();
  for (int i = 0; i < 3; ++i) gyr[i] = read_word();
  return true;
}

int64_t now_ns() {
  timeval now;
  gettimeofday(&now, nullptr);
  return static_cast<int64_t>(now.tv_sec) * 1000000000LL + static_cast<int64_t>(now.tv_usec) * 1000LL;
}

void finish_message() {
  if (message.samples() == 0) return;
  kept.push(buffer, message.end());
  message.clear();
}

void send_one() {
  size_t length;
  if (!mqtt.connected()) return;
  const uint8_t* due = kept.due(millis(), &length);
  if (due != nullptr) mqtt.publish(TOPIC, due, length);  // where that fails the connection ends, and it is sent again
}

void heard(char*, uint8_t* payload, unsigned int length) {
  uint32_t boot, seq;
  if (stream_occ::read_received_up_to(payload, length, &boot, &seq) && boot == boot_number) kept.hear(seq, millis());
}

void connect() {
  if (mqtt.connected() || millis() - tried_ms < RETRY_MS) return;
  tried_ms = millis();
  if (mqtt.connect(DEVICE, USER, PASSWORD) && mqtt.subscribe(RECEIVED_UP_TO)) kept.reconnected(millis());
}

void setup() {
  Preferences flash;  // counts starts, so that numbers may begin at 0 again
  flash.begin("stream_occ", false);
  boot_number = flash.getUInt("boot", 0) + 1;
  flash.putUInt("boot", boot_number);
  flash.end();

  Wire.begin();
  Wire.setClock(400000);
  write_register(0x6B, 0x01);  // wake up, clock of the gyroscope
  write_register(0x1A, 0x03);  // low-pass at 44 Hz
  write_register(0x1B, 0x18);  // +-2000 degrees a second
  write_register(0x1C, 0x18);  // +-16 g

  WiFi.begin(SSID, PASSPHRASE);
  while (WiFi.status() != WL_CONNECTED) delay(100);
  configTime(0, 0, "pool.ntp.org");
  while (time(nullptr) < 1700000000) delay(100);  // no sample before the clock is right
#ifdef USE_TLS
  network.setCACert(CA);  // nobody else is believed; the clock is right by now, or each certificate would be too young
  network.setHandshakeTimeout(5);
#endif
  mqtt.setServer(BROKER, PORT);
  mqtt.setCallback(heard);
  mqtt.setSocketTimeout(1);
  tried_ms = millis() - RETRY_MS;
  next_us = micros();
}

void loop() {
  connect();
  mqtt.loop();
  if (static_cast<int32_t>(micros() - next_us) < 0) {
    send_one();  // between two samples
    return;
  }
  const bool is_late = static_cast<int32_t>(micros() - next_us) > 2 * static_cast<int32_t>(PERIOD_US);
  next_us = is_late ? micros() + PERIOD_US : next_us + PERIOD_US;

  int16_t acc[3], gyr[3];
  if (!read_sample(acc, gyr) || is_late) {  // samples of a message follow each other: end it before the hole
    finish_message();
    return;
  }
  if (message.samples() == 0) message.begin(boot_number, kept.added(), now_ns(), 1e6f / PERIOD_US, ACC_SCALE, GYR_SCALE);
  message.add(acc, gyr);
  if (message.samples() == SAMPLES) finish_message();
}
